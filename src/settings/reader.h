// Takes the keys of a settings file one by one: every key is read, has no effect here, or is named
// as left over.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "settings/settings_file.h"

namespace trireme::settings {

using Json = nlohmann::json;

// No settings file is longer.
inline constexpr std::uint64_t largest_settings_file = 1 << 20;

// A whole file as one value, whatever its format, which the end of its name says. Bounds depth and
// the number of values.
Json parse_settings(const std::string& text, const fs::path& name);

class Reader {
 public:
  Reader(std::string path, const Json& json, SettingsFile& result)
      : path_(std::move(path)), json_(json), result_(result) {}

  // Names of keys are paths: "training.seq_len". Nothing where the key is absent, null or "auto";
  // what is of another kind is refused (exit code 2).
  std::optional<std::string> text(const std::string& key);
  std::optional<double> number(const std::string& key);
  std::optional<std::int64_t> count(const std::string& key);
  // Also "true", "false", "yes" and "no", as accelerate's questions wrote them.
  std::optional<bool> flag(const std::string& key);
  bool has(const std::string& key) const { return find(key) != nullptr; }
  // "auto": the program that reads the file says it.
  bool is_auto(const std::string& key) const;

  // A key that changes no number, or that Trireme decides itself.
  void ignore(const std::string& key) { seen_.insert(key); }
  void ignore(std::initializer_list<const char*> keys);
  // A table with everything in it.
  void ignore_section(const std::string& key);

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

  // Keys that nothing asked for: other versions have keys that this one does not know.
  void lose_others();

  SettingsFile& result() { return result_; }
  const std::string& path() const { return path_; }

 private:
  const Json* find(const std::string& key) const;
  const Json* take(const std::string& key);

  std::string path_;
  const Json& json_;
  SettingsFile& result_;
  std::set<std::string> seen_;
  std::vector<std::string> sections_;  // that are ignored: "tensorboard."
};

// The three systems.
void read_accelerate(Reader& reader);
void read_deepspeed(Reader& reader);
void read_torchtitan(Reader& reader, std::int64_t ranks);

}  // namespace trireme::settings
