// Checks types and ranges of config.json keys.
#include "formats/huggingface/reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "config/fields.h"
#include "formats/huggingface/activations.h"

namespace trireme {
namespace {

// Limits of the Trireme key that a number is stored in.
const FieldLimits& limits_of(const char* ours) {
  const Field* field = find_field("model", ours);
  if (!field) field = find_field("moe", ours);
  TRIREME_CHECK(field);
  return field->limits;
}

const HuggingFaceInertKey* find_inert(
    std::initializer_list<std::span<const HuggingFaceInertKey>> lists, std::string_view key) {
  for (const auto& list : lists) {
    const auto at = std::ranges::find(list, key, &HuggingFaceInertKey::key);
    if (at != list.end()) return &*at;
  }
  return nullptr;
}

bool is_one_of(const nlohmann::json& value, const char* list) {
  const auto allowed = nlohmann::json::parse(list);
  return std::ranges::find(allowed, value) != allowed.end();
}

// Formats `[null, false]` as "null or false".
std::string or_list(const char* list) {
  std::string text;
  for (const auto& value : nlohmann::json::parse(list))
    text += (text.empty() ? "" : " or ") + value.dump();
  return text;
}

// Spells infinity, which Python writes as a bare word, as transformers 5 does.
std::string with_infinity_spelled(std::string_view text) {
  constexpr std::string_view bare = "Infinity", spelled = "{\"__float__\": \"Infinity\"}";
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!in_string && text.substr(i).starts_with(bare)) {
      out += spelled;
      i += bare.size() - 1;
      continue;
    }
    out += text[i];
    if (in_string && text[i] == '\\' && i + 1 < text.size())
      out += text[++i];
    else if (text[i] == '"')
      in_string = !in_string;
  }
  return out;
}

}  // namespace

HuggingFaceReader::HuggingFaceReader(std::string_view text, const std::string& name)
    : state_(std::make_shared<State>(State{name, {}, ""})),
      json_(std::make_shared<const Json>(parse_json(with_infinity_spelled(text), name))) {
  if (!json_->is_object()) fail_input("'{}' is {}, not a JSON object", name, json_shown(*json_));
}

HuggingFaceReader::HuggingFaceReader(std::shared_ptr<State> state, const Json& json,
                                     std::string prefix)
    : state_(std::move(state)),
      json_(std::make_shared<const Json>(json)),
      prefix_(std::move(prefix)) {}

HuggingFaceReader HuggingFaceReader::section(const char* key) const {
  if (!(*this)[key].is_object()) refuse(key, "it must be an object");
  return {state_, (*this)[key], prefix_ + key + "."};
}

const nlohmann::json& HuggingFaceReader::operator[](const char* key) const {
  mark(key);
  return json_->at(key);
}

bool HuggingFaceReader::has(const char* key) const {
  return json_->contains(key) && !is_null(key);
}

bool HuggingFaceReader::is_null(const char* key) const {
  if (!json_->contains(key) || !json_->at(key).is_null()) return false;
  mark(key);
  return true;
}

const char* HuggingFaceReader::either(const char* key, const char* alias) const {
  if (!json_->contains(alias)) return key;
  if (!json_->contains(key)) return alias;
  if ((*this)[alias] != (*this)[key])
    refuse(alias, fmt::format("it is another name for {}{}, which is {}: remove one of the two",
                              prefix_, key, json_shown((*this)[key])));
  return key;
}

void HuggingFaceReader::require(const char* key) const {
  if (!json_->contains(key)) fail_input("'{}' lacks '{}{}'", name(), prefix_, key);
}

std::int64_t HuggingFaceReader::size(const char* key, const char* ours) const {
  require(key);
  return size(key, ours, 0);
}

std::int64_t HuggingFaceReader::size(const char* key, const char* ours,
                                     std::int64_t otherwise) const {
  if (!json_->contains(key)) return otherwise;
  const double largest = limits_of(ours).max;
  const Json& value = (*this)[key];
  if (!value.is_number_integer() || value < 1 || value > largest)
    refuse(key, fmt::format("it must be a whole number from 1 to {}", largest));
  return value.get<std::int64_t>();
}

double HuggingFaceReader::number(const char* key, const char* ours) const {
  require(key);
  return number(key, ours, 0);
}

double HuggingFaceReader::number(const char* key, const char* ours, double otherwise) const {
  if (!json_->contains(key)) return otherwise;
  if (!(*this)[key].is_number()) refuse(key, "it must be a number");
  const FieldLimits& range = limits_of(ours);
  const auto value = (*this)[key].get<double>();
  const bool low = range.above_min ? value > range.min : value >= range.min;
  const bool high = range.below_max ? value < range.max : value <= range.max;
  if (!low || !high) refuse(key, "it must be " + range_text(range));
  return value;
}

bool HuggingFaceReader::flag(const char* key, bool otherwise) const {
  if (!json_->contains(key)) return otherwise;
  if (!(*this)[key].is_boolean()) refuse(key, "it must be true or false");
  return (*this)[key].get<bool>();
}

std::string HuggingFaceReader::text(const char* key, const char* otherwise) const {
  if (!json_->contains(key)) return otherwise;
  if (!(*this)[key].is_string()) refuse(key, "it must be a string");
  return (*this)[key].get<std::string>();
}

MlpActivation HuggingFaceReader::activation(const char* key, const char* otherwise) const {
  if (const auto ours = activation_named(text(key, otherwise))) return *ours;
  std::vector<std::string_view> theirs;
  for (const auto& activation : huggingface_activations) theirs.emplace_back(activation.theirs);
  refuse(key, fmt::format("supported are {}", fmt::join(theirs, ", ")));
}

void HuggingFaceReader::must_be(const char* key, const Json& value) const {
  if (json_->contains(key) && (*this)[key] != value)
    refuse(key, "only " + value.dump() + " is supported");
}

void HuggingFaceReader::must_be_absent(const char* key, const char* why) const {
  if (!has(key)) return;
  const Json& value = (*this)[key];
  if (!value.is_structured() || !value.empty()) refuse(key, why);
}

void HuggingFaceReader::refuse(const char* key, const std::string& why) const {
  fail_input("'{}': {}{} is {}; {}", name(), prefix_, key,
             json_->contains(key) ? json_shown((*this)[key]) : "absent", why);
}

void HuggingFaceReader::pass_over(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) mark(key);
}

void HuggingFaceReader::refuse_unread(
    const std::string& owner,
    std::initializer_list<std::span<const HuggingFaceInertKey>> inert) const {
  for (const auto& [key, value] : json_->items()) {
    if (state_->read.contains(prefix_ + key)) continue;
    const HuggingFaceInertKey* known = find_inert(inert, key);
    if (!known) {
      refuse(key.c_str(),
             fmt::format(
                 "unknown to Trireme, so it may change what {} computes: remove it from the file "
                 "if it does not",
                 owner));
    }
    if (known->only && !is_one_of(value, known->only))
      refuse(key.c_str(), fmt::format("supported here is {}", or_list(known->only)));
  }
}

void HuggingFaceReader::note(const std::string& text) const {
  if (!state_->notes.empty()) state_->notes += "; ";
  state_->notes += text;
}

}  // namespace trireme
