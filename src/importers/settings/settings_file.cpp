// Recognizes the system of a settings file, and calls its reader.
#include "importers/settings/settings_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "importers/settings/bridge.h"
#include "importers/settings/reader.h"

namespace trireme::settings {
namespace {

bool has_any(const Json& json, std::initializer_list<const char*> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return json.contains(key); });
}

// A configuration that Megatron-Bridge saved.
bool is_bridge(const Json& json) {
  const Json target = json.value("_target_", Json());
  return target.is_string() && target.get<std::string>().starts_with("megatron.bridge.");
}

// A configuration that torchtitan printed since February 2026.
bool is_printed_torchtitan(const Json& json) {
  return json.contains("model_spec") && has_any(json, {"training", "parallelism", "lr_scheduler"});
}

System system_of(const fs::path& path, const Json& json) {
  if (!json.is_object())
    fail_input("'{}' is {}, not a table of settings", path.string(), json_shown(json));
  if (is_bridge(json)) return System::bridge;
  if (has_any(json, {"distributed_type", "compute_environment"})) return System::accelerate;
  if (is_printed_torchtitan(json)) return System::torchtitan;
  if (has_any(json, {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"}))
    return System::deepspeed;
  if (path.extension() == ".toml" && json.contains("training") &&
      has_any(json, {"parallelism", "model", "job"}))
    return System::torchtitan;
  fail_input(
      "'{}' is not a settings file of a known system: expected accelerate's YAML "
      "(distributed_type), DeepSpeed's JSON (zero_optimization, train_batch_size), torchtitan's "
      "TOML ([training]) or its saved JSON (model_spec), or Megatron-Bridge's YAML (_target_); {}",
      path.string(), json_keys_shown(json));
}

}  // namespace

const char* name_of(System system) {
  switch (system) {
    case System::accelerate:
      return "accelerate";
    case System::deepspeed:
      return "DeepSpeed";
    case System::torchtitan:
      return "torchtitan";
    case System::bridge:
      return "Megatron-Bridge";
  }
  return "";
}

bool is_settings_file(const fs::path& path) {
  static constexpr std::array ends{".yaml", ".yml", ".json", ".hjson", ".toml"};
  return std::find(ends.begin(), ends.end(), path.extension().string()) != ends.end();
}

SettingsFile read_settings_file(const fs::path& path, std::int64_t ranks) {
  return read_settings(read_file(path, largest_settings_file), path, ranks);
}

SettingsFile read_settings(const std::string& text, const fs::path& path, std::int64_t ranks) {
  return read_parsed_settings(parse_settings(text, path), path, ranks);
}

SettingsFile read_parsed_settings(const Parsed& parsed, const fs::path& path, std::int64_t ranks) {
  SettingsFile result;
  result.system = system_of(path, parsed.json);
  result.ranks = ranks;
  const Json json = result.system == System::bridge ? with_bridge_recipe(parsed.json) : parsed.json;
  Reader reader(path.string(), json, result);
  for (const std::string& key : parsed.repeated)
    reader.note(key, "appears twice: the last value applies, as in PyYAML");
  if (result.system == System::accelerate) read_accelerate(reader);
  if (result.system == System::bridge) read_bridge(reader, ranks);
  if (result.system == System::deepspeed) read_deepspeed(reader);
  const bool printed = is_printed_torchtitan(parsed.json);
  if (result.system == System::torchtitan && printed) read_printed_torchtitan(reader, ranks);
  if (result.system == System::torchtitan && !printed) read_torchtitan(reader, ranks);
  reader.lose_others();
  return result;
}

}  // namespace trireme::settings
