// Takes the keys of a settings file one by one: every key is read, passes because it changes no
// number, or is named as left over.
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

// No settings file is longer.
inline constexpr std::uint64_t largest_settings_file = 1 << 20;

// A whole file as one value, whatever its format, which the end of its name says.
struct Parsed {
  Json json;
  std::vector<std::string> repeated;  // keys of YAML that are there twice: the last one counts
};

// Bounds depth and the number of values.
Parsed parse_settings(const std::string& text, const fs::path& name);

// The settings of a whole file, whose system its keys say.
SettingsFile read_parsed_settings(const Parsed& parsed, const fs::path& path, std::int64_t ranks);

class Reader {
 public:
  Reader(std::string path, const Json& json, SettingsFile& result)
      : path_(std::move(path)), json_(json), result_(result) {}

  // Names of keys are paths: "training.seq_len". Nothing where the key is absent, null or "auto";
  // what is of another kind is refused (exit code 2).
  std::optional<std::string> text(const std::string& key);
  std::optional<double> number(const std::string& key);
  std::optional<std::int64_t> count(const std::string& key);
  // Also "true", "false", "yes" and "no", as accelerate's questions wrote them, 0 and 1.
  std::optional<bool> flag(const std::string& key);
  // The texts of a list, or of one text with commas.
  std::vector<std::string> list(const std::string& key);
  bool has(const std::string& key) const { return find(key) != nullptr; }
  // The one of the names that the file has, the first where it has none. Two of them that say
  // different things are refused.
  std::string one_of(std::initializer_list<const char*> names);
  // "auto": the program that reads the file says it.
  bool is_auto(const std::string& key) const;
  // Whether the value is one of those, written as in Passed::values.
  bool says(const std::string& key, std::string_view values) const;
  // As messages show the value.
  std::string shown(const std::string& key) const;
  // Whether the key is there, whatever its value.
  bool is_there(const std::string& key) const;

  // Keys that change no number, or only where their value is none of those that do not: then the
  // key is lost. `prefix`: "training.".
  void pass(const std::string& prefix, std::span<const Passed> keys);
  // The same of one key.
  void pass(const std::string& key);
  // A key that was read in another way, or has no effect for a reason that is said elsewhere.
  void consume(const std::string& key) { seen_.insert(key); }
  // A table with everything in it, which is part of something lost.
  void consume_section(const std::string& key);
  // A table that its key "enabled" switches on, at any depth, with what it does then.
  void pass_if_off(const std::string& section, const std::string& otherwise);
  // Whether the key is among those that passed.
  bool has_passed(const std::string& key) const;

  // Settings of ours. Two that contradict each other are refused (exit code 2).
  void set(const std::string& key, const std::string& toml, const std::string& origin);
  void set_text(const std::string& key, const std::string& text, const std::string& origin);
  void set(const std::string& key, std::int64_t value, const std::string& origin);
  void set(const std::string& key, double value, const std::string& origin);
  void set(const std::string& key, bool value, const std::string& origin);
  void note(const std::string& key, const std::string& text);
  // What would make the training another one.
  void lose(const std::string& key, const std::string& why);
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const;

  // What has been set, or null.
  const megatron::Setting* setting(const std::string& key) const;

  // Names the keys that nothing asked for, which other versions may have.
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
  std::set<std::string> autos_;        // keys that were read and are "auto"
  std::vector<std::string> sections_;  // that are consumed: "tensorboard."
};

// In lower case.
std::string lowered(std::string text);

// A number of micro-batches in a step, where the batch is the program's: the file says how the two
// belong together, and not the batch.
void leave_batch_open(Reader& reader, const std::string& key, std::int64_t micro_batches);

// The three systems.
void read_accelerate(Reader& reader);
void read_deepspeed(Reader& reader);
void read_torchtitan(Reader& reader, std::int64_t ranks);

}  // namespace trireme::settings
