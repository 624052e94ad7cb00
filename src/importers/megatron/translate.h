// From the flags of a Megatron script to a configuration that means the same.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"

namespace trireme::megatron {

enum class Program { gpt, bert };

// One key of the configuration, with where its value comes from.
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
  std::vector<Note> notes;             // accepted, but worth a line: mostly flags without effect
  std::vector<Note> lost;              // lenient: what could not be carried over, and why
  std::size_t lost_beyond = 0;         // lenient: the number of those not listed
  std::string missing;                 // lenient: required flags that are not there
  std::vector<std::string> overrides;  // arguments of the form section.key=value, in order
};

struct TranslateOptions {
  Program program = Program::gpt;
  // Only what the model of a checkpoint computes counts; how it was trained does not matter.
  bool model_only = false;
  // Collects problems in Translation::lost and continues, instead of throwing the first one.
  bool lenient = false;
  // The text of a file that a flag names, or nothing where there is no such file. Where the
  // function is empty, files are read.
  std::function<std::optional<std::string>(const std::string& path)> read_file = nullptr;
};

// `arguments` are the words after the script's name. Flags may be written "--flag value" or
// "--flag=value"; the last of several counts, as in Megatron. Errors (bad input) name flag, value
// and what is allowed: unknown flags (with the nearest name), values of the wrong kind or out of
// range, flags that contradict each other, flags for what is not available, required flags that
// are missing. Every default of Megatron's that differs from ours becomes a setting.
Translation translate(std::span<const std::string> arguments, const TranslateOptions& options);

// The settings and overrides as a configuration. Throws bad_input for overrides that are wrong.
Config to_config(const Translation& translation);

// Adds a setting at its place, or replaces the one of its key.
void put(Translation& translation, Setting setting);

// Throws bad_input, in terms of flags, where the configuration cannot work on this many ranks; 0:
// on any number of them.
void check(const Config& config, std::int64_t ranks = 0);

// The settings and overrides as TOML with a comment for each key: `trireme train` reads it as the
// configuration that to_config() gives.
std::string to_toml(const Translation& translation);

// "trireme pretrain-gpt --help": the flags by group, each with its fate.
std::string help(Program program);

}  // namespace trireme::megatron
