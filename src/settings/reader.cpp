// Reads keys, and remembers which were read.
#include "settings/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "config/fields.h"

namespace trireme::settings {

namespace {

const Json* value_of(const Json& root, const std::string& key) {
  const Json* json = &root;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('.', begin), key.size());
    const std::string name = key.substr(begin, end - begin);
    if (json->is_array()) {  // "betas.0"
      const std::size_t place = std::strtoul(name.c_str(), nullptr, 10);
      if (place >= json->size()) return nullptr;
      json = &(*json)[place];
    } else {
      const auto found = json->is_object() ? json->find(name) : json->end();
      if (found == json->end()) return nullptr;
      json = &*found;
    }
    begin = end + 1;
  }
  return json;
}

}  // namespace

const Json* Reader::find(const std::string& key) const {
  const Json* json = value_of(json_, key);
  return !json || json->is_null() || *json == "auto" ? nullptr : json;
}

bool Reader::is_auto(const std::string& key) const {
  const Json* json = value_of(json_, key);
  return json && *json == "auto";
}

const megatron::Setting* Reader::setting(const std::string& key) const {
  const auto& settings = result_.translation.settings;
  const auto found = std::ranges::find(settings, key, &megatron::Setting::key);
  return found == settings.end() ? nullptr : &*found;
}

const Json* Reader::take(const std::string& key) {
  seen_.insert(key);
  return find(key);
}

std::optional<std::string> Reader::text(const std::string& key) {
  const Json* json = take(key);
  if (!json) return std::nullopt;
  if (json->is_boolean()) return *json ? "yes" : "no";  // what YAML makes of a plain no
  if (json->is_number_integer()) return json->dump();
  if (!json->is_string()) refuse(key, fmt::format("is {}, not a text", json_shown(*json)));
  return json->get<std::string>();
}

std::optional<double> Reader::number(const std::string& key) {
  const Json* json = take(key);
  if (!json) return std::nullopt;
  if (!json->is_number()) refuse(key, fmt::format("is {}, not a number", json_shown(*json)));
  return json->get<double>();
}

std::optional<std::int64_t> Reader::count(const std::string& key) {
  const std::optional<double> value = number(key);
  if (!value) return std::nullopt;
  const double whole = std::floor(*value);
  if (whole != *value || std::abs(whole) > 9e15)
    refuse(key, fmt::format("is {}, not a whole number", *value));
  return static_cast<std::int64_t>(whole);
}

std::optional<bool> Reader::flag(const std::string& key) {
  const Json* json = take(key);
  if (!json) return std::nullopt;
  if (json->is_boolean()) return json->get<bool>();
  for (const auto& [word, value] :
       {std::pair{"true", true}, {"yes", true}, {"false", false}, {"no", false}})
    if (*json == word) return value;
  refuse(key, fmt::format("is {}, not true or false", json_shown(*json)));
}

void Reader::ignore(std::initializer_list<const char*> keys) {
  for (const char* key : keys) ignore(std::string(key));
}

void Reader::ignore_section(const std::string& key) {
  ignore(key);
  sections_.push_back(key + ".");
}

void Reader::set(const std::string& key, const std::string& toml, const std::string& origin) {
  if (const megatron::Setting* known = setting(key)) {
    if (known->value != toml)
      refuse(origin, fmt::format("asks for {} = {}, and {} for {}", key, toml, known->origin,
                                 known->value));
    return;
  }
  result_.translation.settings.push_back({key, toml, origin});
}

void Reader::set_text(const std::string& key, const std::string& text, const std::string& origin) {
  set(key, toml_string(text), origin);
}

void Reader::set(const std::string& key, std::int64_t value, const std::string& origin) {
  set(key, fmt::format("{}", value), origin);
}

void Reader::set(const std::string& key, double value, const std::string& origin) {
  set(key, toml_number(value), origin);
}

void Reader::set(const std::string& key, bool value, const std::string& origin) {
  set(key, std::string(value ? "true" : "false"), origin);
}

void Reader::note(const std::string& key, const std::string& text) {
  result_.translation.notes.push_back({key, text});
}

void Reader::lose(const std::string& key, const std::string& why) {
  result_.translation.lost.push_back({key, why});
}

void Reader::refuse(const std::string& key, const std::string& why) const {
  fail_input("'{}': {} {}", path_, key, why);
}

void Reader::lose_others() {
  const std::function<void(const Json&, const std::string&)> visit = [&](const Json& json,
                                                                         const std::string& path) {
    for (const auto& [name, value] : json.items()) {
      const std::string key = path.empty() ? name : path + "." + name;
      const bool ignored = std::any_of(
          sections_.begin(), sections_.end(),
          [&](const auto& section) { return key.starts_with(section) || key + "." == section; });
      if (ignored || seen_.contains(key) || value.is_null() || value == "auto") continue;
      if (value.is_object()) {
        visit(value, key);
      } else {
        lose(key, "is not known here: take it out if it changes no number");
      }
    }
  };
  visit(json_, "");
}

}  // namespace trireme::settings
