// Helper functions for rows of the flag table.
#pragma once

#include <utility>

#include "importers/megatron/flags/flags.h"

namespace trireme::megatron {

// A flag whose value is assigned to `key`.
inline Flag to_key(std::string name, Kind kind, std::string key, std::string absent = "",
                   std::string text = "") {
  return {std::move(name), kind, Fate::key, std::move(key), "", std::move(absent), std::move(text)};
}
// A flag that Megatron requires.
inline Flag required(std::string name, Kind kind, std::string key) {
  Flag flag = to_key(std::move(name), kind, std::move(key));
  flag.required = true;
  return flag;
}
// A flag without value that sets `key` to `value`; otherwise it is `absent`.
inline Flag turns(std::string name, std::string key, std::string value, std::string absent,
                  std::string text = "") {
  return {std::move(name),  Kind::none,        Fate::key,      std::move(key),
          std::move(value), std::move(absent), std::move(text)};
}
// A flag with one of the values "theirs=ours theirs=ours".
inline Flag chooses(std::string name, std::string key, std::string values, std::string absent,
                    std::string text = "") {
  return {std::move(name),   Kind::choice,      Fate::key,      std::move(key),
          std::move(values), std::move(absent), std::move(text)};
}
inline Flag rule(std::string name, Kind kind, std::string keys, std::string text,
                 std::string values = "") {
  return {std::move(name),   kind, Fate::rule,     std::move(keys),
          std::move(values), "",   std::move(text)};
}
inline Flag ignored(std::string name, Kind kind, std::string why) {
  return {std::move(name), kind, Fate::ignored, "", "", "", std::move(why)};
}
inline Flag refused(std::string name, Kind kind, std::string why, std::string harmless = "") {
  return {std::move(name), kind, Fate::refused, "", std::move(harmless), "", std::move(why)};
}
// Adds flags with a common reason: "--a --b=N --c=TEXT...", with values as shown in help.
void add_ignored(std::vector<Flag>& flags, const char* why, const char* names);
void add_refused(std::vector<Flag>& flags, const char* why, const char* names);
inline Flag bert_only(Flag flag) {
  flag.bert_only = true;
  return flag;
}

}  // namespace trireme::megatron
