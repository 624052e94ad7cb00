// Consumes the keys of a settings file: every key is read, passes because it does not change
// results, or is reported as not carried over.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "importers/megatron/passed.h"
#include "importers/settings/settings_file.h"

namespace trireme::settings {

using Json = nlohmann::json;

// Maximum size of a settings file in bytes.
inline constexpr std::uint64_t largest_settings_file = 1 << 20;

// A parsed file in any supported format, which its extension determines.
struct Parsed {
  Json json;
  std::vector<std::string> repeated;  // duplicate YAML keys: the last one wins
};

// Limits nesting depth and the number of values.
Parsed parse_settings(const std::string& text, const fs::path& name);

// Settings of a whole file, whose system is recognized by its keys.
SettingsFile read_parsed_settings(const Parsed& parsed, const fs::path& path, std::int64_t ranks);

class Reader {
 public:
  Reader(std::string path, const Json& json, SettingsFile& result)
      : path_(std::move(path)), json_(json), result_(result) {}

  // Keys are paths: "training.seq_len". Returns nullopt if the key is absent, null or "auto";
  // values of another type are refused (exit code 2).
  std::optional<std::string> text(const std::string& key);
  std::optional<double> number(const std::string& key);
  std::optional<std::int64_t> count(const std::string& key);
  // Also accepts "true", "false", "yes" and "no", as written by `accelerate config`, and 0 and 1.
  std::optional<bool> flag(const std::string& key);
  // Elements of a list of strings, or of a comma-separated string.
  std::vector<std::string> list(const std::string& key);
  bool has(const std::string& key) const { return find(key) != nullptr; }
  // The name that the file uses among aliases, or the first if none. Aliases with different values
  // are refused.
  std::string one_of(std::initializer_list<const char*> names);
  // Whether the value is "auto", which the program fills in (of DeepSpeed and accelerate).
  bool is_auto(const std::string& key) const;
  // Whether the value is one of `values`, in the notation of Passed::values.
  bool says(const std::string& key, std::string_view values) const;
  // Formats the value for messages.
  std::string shown(const std::string& key) const;
  // The value, or null if the key is absent.
  const Json* json_at(const std::string& key) const;
  // Whether the key exists, with any value.
  bool is_there(const std::string& key) const;

  // Passes keys that do not change results; a key whose value does is reported as lost. `prefix`:
  // "training.".
  void pass(const std::string& prefix, std::span<const Passed> keys);
  // Same for a single key.
  void pass(const std::string& key);
  // Marks a key that was read otherwise, or whose lack of effect is explained elsewhere.
  void consume(const std::string& key) { seen_.insert(key); }
  // Marks a table and all its keys, as part of something already reported as lost.
  void consume_section(const std::string& key);
  // Passes a table if its key "enabled" is off, at any depth; `otherwise` is its effect if on.
  void pass_if_off(const std::string& section, const std::string& otherwise);
  // Passes a value without content (null, [], {}); `otherwise` says what another does: "KEY is
  // VALUE: it ...".
  void pass_if_empty(const std::string& key, const std::string& otherwise);
  // Whether the key is among those passed.
  bool has_passed(const std::string& key) const;

  // Whether the key was read, passed or consumed.
  bool is_read(const std::string& key) const { return seen_.contains(key); }

  // Sets Trireme settings. Contradictory values for a key are refused (exit code 2).
  void set(const std::string& key, const std::string& toml, const std::string& origin);
  void set_text(const std::string& key, const std::string& text, const std::string& origin);
  void set(const std::string& key, std::int64_t value, const std::string& origin);
  void set(const std::string& key, double value, const std::string& origin);
  void set(const std::string& key, bool value, const std::string& origin);
  void note(const std::string& key, const std::string& text);
  // Reports a key as lost: training would differ.
  void lose(const std::string& key, const std::string& why);
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const;

  // The setting of a key, or null if not set.
  const megatron::Setting* setting(const std::string& key) const;

  // Reports keys that were not read, which other versions may have.
  void lose_others();

  SettingsFile& result() { return result_; }
  const std::string& path() const { return path_; }
  const Json& json() const { return json_; }

 private:
  const Json* find(const std::string& key) const;
  const Json* take(const std::string& key);
  bool is_known_table(const std::string& key) const;

  std::string path_;
  const Json& json_;
  SettingsFile& result_;
  std::set<std::string> seen_;
  std::set<std::string> autos_;        // keys read with the value "auto"
  std::vector<std::string> sections_;  // consumed sections: "tensorboard."
};

// Converts to lower case.
std::string lowered(std::string text);

// Records the number of micro-batches per step if the program determines the batch size: the file
// only gives their ratio.
void leave_batch_open(Reader& reader, const std::string& key, std::int64_t micro_batches);

// Readers of the systems.
void read_accelerate(Reader& reader);
void read_deepspeed(Reader& reader);
void read_torchtitan(Reader& reader, std::int64_t ranks);
// Same for a configuration that torchtitan printed since February 2026.
void read_printed_torchtitan(Reader& reader, std::int64_t ranks);
void read_bridge(Reader& reader, std::int64_t ranks);

}  // namespace trireme::settings
