// Typed access to the keys of a JSON section, and detection of unused keys.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

void collect_others(const Json& object, const std::string& prefix,
                    std::span<const std::string_view> known, std::vector<std::string>& keys) {
  for (const auto& [name, value] : object.items()) {
    const std::string key = prefix + name;
    if (std::ranges::find(known, key) != known.end()) continue;
    const bool is_section =
        std::ranges::any_of(known, [&](auto other) { return other.starts_with(key + "."); });
    if (!is_section) {
      keys.push_back(key);
    } else if (value.is_object()) {
      collect_others(value, key + ".", known, keys);
    }
  }
}

}  // namespace

std::vector<std::string> json_other_keys(const Json& object,
                                         std::span<const std::string_view> known) {
  std::vector<std::string> keys;
  collect_others(object, "", known, keys);
  return keys;
}

JsonSection::JsonSection(const std::string& path, const Json& json, std::string name)
    : path_(path), json_(json), name_(std::move(name)) {
  if (!json_.is_object()) {
    fail_input("{} in {} is {}, not an object", name_, path_, json_shown(json_));
  }
}

std::string JsonSection::text(const char* key) const {
  const Json& value = at(key);
  if (!value.is_string()) refuse(key, "not a string");
  return value.get<std::string>();
}

std::int64_t JsonSection::count(const char* key) const {
  const Json& value = at(key);
  constexpr std::int64_t largest = std::int64_t{1} << 40;
  if (!value.is_number_integer() || value < 1 || value > largest) {
    refuse(key, "not a positive integer");
  }
  return value.get<std::int64_t>();
}

std::optional<bool> JsonSection::flag(const char* key) const {
  const auto value = json_.find(key);
  if (value == json_.end() || value->is_null() || *value == "auto") return std::nullopt;
  if (!value->is_boolean()) refuse(key, "not true or false");
  return value->get<bool>();
}

JsonSection JsonSection::section(const char* key) const {
  return {path_, at(key), name_ + "." + key};
}

void JsonSection::refuse(const char* key, const std::string& why) const {
  fail_input("{}.{} in {} is {}, {}", name_, key, path_, json_shown(at(key)), why);
}

const Json& JsonSection::at(const char* key) const {
  const auto value = json_.find(key);
  if (value == json_.end()) fail_input("{} in {} lacks '{}'", name_, path_, key);
  return *value;
}

}  // namespace trireme
