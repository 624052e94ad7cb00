// Keys of foreign settings files without an equivalent setting, and the effects of their values.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

struct Passed {
  const char* key;
  const char* values = nullptr;     // values without effect, as "false|0"; null: all
  const char* otherwise = nullptr;  // effect of other values: "KEY is VALUE: ..."
};

// Keys below `prefix`, such as "aio.".
struct PassedSection {
  const char* prefix;
  std::span<const Passed> keys;
};

// A section enabled by its key "enabled", and the effect of enabling it.
struct SwitchedSection {
  const char* section;
  const char* otherwise;
};

// Tables for DeepSpeed.
std::span<const PassedSection> passed_deepspeed_keys();
std::span<const SwitchedSection> switched_deepspeed_sections();

// Formats a value for messages and for `Passed::values`, without quotes.
std::string plain_value(const nlohmann::json& value);

// Whether a value is one of `values`, in the notation of `Passed::values`.
bool is_one_of(const nlohmann::json& value, std::string_view values);

// Path of the first key "enabled" below `json` that is on, or "".
std::string switched_on(const nlohmann::json& json, const std::string& path);

}  // namespace trireme
