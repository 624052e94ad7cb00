// Keys of other programs' settings files for which no setting stands, and what their values do.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

struct Passed {
  const char* key;
  const char* values = nullptr;     // those that change no number, as "false|0"; null: all of them
  const char* otherwise = nullptr;  // what another value does: "KEY is VALUE: ..."
};

// Keys below `prefix` ("aio.").
struct PassedSection {
  const char* prefix;
  std::span<const Passed> keys;
};

// A section that a key "enabled" switches on, with what it does then.
struct SwitchedSection {
  const char* section;
  const char* otherwise;
};

// DeepSpeed's.
std::span<const PassedSection> passed_deepspeed_keys();
std::span<const SwitchedSection> switched_deepspeed_sections();

// As messages show a value, and as `Passed::values` writes it: without quotes.
std::string plain_value(const nlohmann::json& value);

// Whether a value is one of those, written as in `Passed::values`.
bool is_one_of(const nlohmann::json& value, std::string_view values);

// The first key "enabled" below `json` that is on, as a path, or "".
std::string switched_on(const nlohmann::json& json, const std::string& path);

}  // namespace trireme
