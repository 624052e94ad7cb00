// Reads keys and records which ones were read.
#include "importers/settings/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
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

// Formats a value for messages: strings quoted, long values truncated.
std::string short_text(const Json& value) {
  const std::string text = plain_value(value);
  const std::string cut = text.size() <= 60 ? text : text.substr(0, 57) + "...";
  return value.is_string() ? "'" + cut + "'" : cut;
}

// Keys whose "auto" transformers' Trainer or accelerate replaces by a value of the program.
constexpr std::array filled_in{"bf16.enabled",
                               "bfloat16.enabled",
                               "deepspeed_config.gradient_accumulation_steps",
                               "deepspeed_config.gradient_clipping",
                               "fp16.enabled",
                               "gradient_accumulation_steps",
                               "gradient_clipping",
                               "optimizer.params.betas",
                               "optimizer.params.eps",
                               "optimizer.params.lr",
                               "optimizer.params.weight_decay",
                               "scheduler.params.total_num_steps",
                               "scheduler.params.warmup_max_lr",
                               "scheduler.params.warmup_min_lr",
                               "scheduler.params.warmup_num_steps",
                               "train_batch_size",
                               "train_micro_batch_size_per_gpu",
                               "zero_optimization.offload_optimizer.device",
                               "zero_optimization.offload_optimizer.nvme_path",
                               "zero_optimization.offload_param.device",
                               "zero_optimization.offload_param.nvme_path",
                               "zero_optimization.stage"};

// Keys and values of the file are written in comments, which they must not terminate.
std::string in_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return text;
}

}  // namespace

std::string lowered(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

const Json* Reader::find(const std::string& key) const {
  const Json* json = value_of(json_, key);
  return !json || json->is_null() || is_auto(key) ? nullptr : json;
}

bool Reader::is_auto(const std::string& key) const {
  const bool by_program =
      result_.system == System::accelerate || result_.system == System::deepspeed;
  if (!by_program) return false;
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
  if (is_auto(key)) autos_.insert(key);
  return find(key);
}

std::optional<std::string> Reader::text(const std::string& key) {
  const Json* json = take(key);
  if (!json) return std::nullopt;
  if (json->is_boolean()) return *json ? "yes" : "no";  // YAML parses an unquoted no as false
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
  if (is_one_of(*json, "true|yes|1")) return true;
  if (is_one_of(*json, "false|no|0")) return false;
  refuse(key, fmt::format("is {}, not true or false", json_shown(*json)));
}

std::vector<std::string> Reader::list(const std::string& key) {
  const Json* json = take(key);
  std::vector<std::string> result;
  if (!json) return result;
  if (json->is_string()) {
    const std::string text = json->get<std::string>();
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      if (end > begin) result.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return result;
  }
  if (!json->is_array()) refuse(key, fmt::format("is {}, not a list", json_shown(*json)));
  for (const Json& item : *json) result.push_back(plain_value(item));
  return result;
}

std::string Reader::one_of(std::initializer_list<const char*> names) {
  std::string found;
  for (const char* name : names) {
    if (!has(name)) continue;
    if (found.empty()) {
      found = name;
    } else if (*find(found) != *find(name)) {
      refuse(name, fmt::format("is {}, and {} is {}", shown(name), found, shown(found)));
    } else {
      consume(name);
    }
  }
  return found.empty() ? *names.begin() : found;
}

bool Reader::says(const std::string& key, std::string_view values) const {
  const Json* json = value_of(json_, key);
  return json && is_one_of(*json, values);
}

std::string Reader::shown(const std::string& key) const {
  const Json* json = value_of(json_, key);
  return json ? short_text(*json) : "absent";
}

const Json* Reader::json_at(const std::string& key) const {
  return value_of(json_, key);
}

bool Reader::is_there(const std::string& key) const {
  return value_of(json_, key) != nullptr;
}

void Reader::pass(const std::string& prefix, std::span<const Passed> keys) {
  for (const Passed& row : keys) {
    const std::string key = prefix + row.key;
    consume(key);
    const Json* json = find(key);
    if (is_auto(key) && row.values && !is_one_of("auto", row.values)) {
      autos_.insert(key);
    } else if (json && row.values && !is_one_of(*json, row.values)) {
      lose(key, fmt::format("is {}: {}", shown(key), row.otherwise));
    } else if (is_there(key)) {
      result_.passed.push_back(key);
    }
  }
}

void Reader::pass(const std::string& key) {
  consume(key);
  if (is_there(key)) result_.passed.push_back(key);
}

void Reader::consume_section(const std::string& key) {
  consume(key);
  sections_.push_back(key + ".");
}

void Reader::pass_if_off(const std::string& section, const std::string& otherwise) {
  consume_section(section);
  const Json* json = find(section);
  if (!json) return;
  if (!json->is_object()) return lose(section, fmt::format("is {}, not a table", shown(section)));
  const std::string on = switched_on(*json, section);
  if (!on.empty()) return lose(on, fmt::format("is {}: {}", shown(on), otherwise));
  result_.passed.push_back(section);
}

void Reader::pass_if_empty(const std::string& key, const std::string& otherwise) {
  consume_section(key);
  const Json* json = value_of(json_, key);
  if (json && !json->empty()) return lose(key, fmt::format("is {}: {}", shown(key), otherwise));
  if (json) result_.passed.push_back(key);
}

bool Reader::has_passed(const std::string& key) const {
  return std::ranges::find(result_.passed, key) != result_.passed.end();
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
  result_.translation.notes.push_back({in_one_line(key), in_one_line(text)});
}

void Reader::lose(const std::string& key, const std::string& why) {
  result_.translation.lost.push_back({in_one_line(key), in_one_line(why)});
}

void Reader::refuse(const std::string& key, const std::string& why) const {
  fail_input("'{}': {} {}", path_, key, why);
}

bool Reader::is_known_table(const std::string& key) const {
  const auto next = seen_.lower_bound(key + ".");
  return next != seen_.end() && next->starts_with(key + ".");
}

void Reader::lose_others() {
  const std::function<void(const Json&, const std::string&)> visit = [&](const Json& json,
                                                                         const std::string& path) {
    for (const auto& [name, value] : json.items()) {
      const std::string key = path.empty() ? name : path + "." + name;
      const bool consumed = std::ranges::any_of(
          sections_, [&](const std::string& section) { return key.starts_with(section); });
      const bool is_path = name.find('.') != name.npos;  // a single word "fp16.enabled" is no key
      if (!is_path && (consumed || seen_.contains(key))) continue;
      const bool tables = value.is_array() && !value.empty() && value[0].is_object();
      if ((value.is_object() || (tables && is_known_table(key))) && !value.empty()) {
        visit(value, key);
      } else if (!is_known_table(key)) {
        lose(key,
             fmt::format(
                 "is {}, but it is not a known setting of {}: if it does not affect the results, "
                 "remove it and import again",
                 short_text(value), name_of(result_.system)));
      } else if (!value.is_null() && !value.empty()) {
        lose(key, fmt::format("is {}, not a table", short_text(value)));
      }
    }
  };
  visit(json_, "");
  for (const std::string& key : autos_) {
    const auto& notes = result_.translation.notes;
    if (std::ranges::find(filled_in, key) == filled_in.end())
      lose(key, "is 'auto', which neither transformers nor accelerate fills in here: give a value");
    else if (std::ranges::find(notes, key, &megatron::Note::flag) == notes.end())
      note(key, "is 'auto', which the program fills in: set its value explicitly");
  }
}

}  // namespace trireme::settings
