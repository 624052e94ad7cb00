// Translates the flags of a Megatron script to an equivalent configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"

namespace trireme::megatron {

enum class Program { gpt, bert };

// A configuration key's value and its origin.
struct Setting {
  std::string key;     // "section.key"
  std::string value;   // TOML
  std::string origin;  // "--lr", "Megatron's default"
};

struct Note {
  std::string flag;
  std::string text;
  bool operator==(const Note&) const = default;
};

struct Translation {
  std::vector<Setting> settings;       // in the order of the table of keys
  std::vector<Note> notes;             // accepted but worth mentioning: mostly flags without effect
  std::vector<Note> lost;              // lenient: what was not carried over, and why
  std::size_t lost_beyond = 0;         // lenient: number of those not listed
  std::string missing;                 // lenient: missing required flags
  std::vector<std::string> overrides;  // arguments of the form section.key=value, in order
};

struct TranslateOptions {
  Program program = Program::gpt;
  // Translates only what determines a checkpoint's model, not its training.
  bool model_only = false;
  // Number of ranks that train; 0: unknown.
  std::int64_t ranks = 0;
  // Collects problems in Translation::lost and continues, instead of throwing the first one.
  bool lenient = false;
  // Returns the text of a file named by a flag; nullopt if it does not exist. If the function is
  // empty, files are read from disk.
  std::function<std::optional<std::string>(const std::string& path)> read_file = nullptr;
};

// `arguments` are the words after the script's name. Flags are written "--flag value" or
// "--flag=value"; the last of several wins, as in Megatron. Errors (bad input) name flag, value and
// valid values: unknown flags (with the nearest name), values of the wrong kind or out of range,
// contradictory flags, unsupported features, missing required flags. Every Megatron default that
// differs from ours becomes a setting.
Translation translate(std::span<const std::string> arguments, const TranslateOptions& options);

// Applies settings and overrides to a configuration. Throws bad_input for invalid overrides.
Config to_config(const Translation& translation);

// Inserts a setting in order, or replaces that of the same key.
void put(Translation& translation, Setting setting);

// Throws bad_input, in terms of flags, if the configuration is invalid on this many ranks; 0: on
// any number of ranks.
void check(const Config& config, std::int64_t ranks = 0);

// Prints settings and overrides as TOML with a comment per key: `trireme train` reads it as the
// configuration returned by to_config().
std::string to_toml(const Translation& translation);

// Text of "trireme pretrain-gpt --help": flags by group, with their handling.
std::string help(Program program);

}  // namespace trireme::megatron
