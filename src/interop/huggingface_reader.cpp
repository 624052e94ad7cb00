// Types, ranges and messages of the keys of a config.json.
#include "interop/huggingface_reader.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "config/fields.h"
#include "interop/huggingface_activations.h"

namespace trireme {
namespace {

// Of the key of ours that a number becomes.
const FieldLimits& limits_of(const char* ours) {
  const Field* field = find_field("model", ours);
  if (!field) field = find_field("moe", ours);
  TRIREME_CHECK(field);
  return field->limits;
}

}  // namespace

HuggingFaceReader::HuggingFaceReader(std::string_view text, const std::string& name)
    : name_(name), json_(std::make_shared<const Json>(parse_json(text, name))) {
  if (!json_->is_object()) fail_input("'{}' is {}, not a JSON object", name_, json_shown(*json_));
}

HuggingFaceReader::HuggingFaceReader(const std::string& name, const Json& json, std::string prefix)
    : name_(name), json_(std::make_shared<const Json>(json)), prefix_(std::move(prefix)) {}

HuggingFaceReader HuggingFaceReader::section(const char* key) const {
  if (!(*this)[key].is_object()) refuse(key, "it must be an object");
  return {name_, (*this)[key], prefix_ + key + "."};
}

const nlohmann::json& HuggingFaceReader::operator[](const char* key) const {
  return json_->at(key);
}

bool HuggingFaceReader::has(const char* key) const {
  return json_->contains(key) && !(*this)[key].is_null();
}

bool HuggingFaceReader::is_null(const char* key) const {
  return json_->contains(key) && (*this)[key].is_null();
}

void HuggingFaceReader::require(const char* key) const {
  if (!has(key)) fail_input("'{}' lacks '{}{}'", name_, prefix_, key);
}

std::int64_t HuggingFaceReader::size(const char* key, const char* ours) const {
  require(key);
  return size(key, ours, 0);
}

std::int64_t HuggingFaceReader::size(const char* key, const char* ours,
                                     std::int64_t otherwise) const {
  if (!has(key)) return otherwise;
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
  if (!has(key)) return otherwise;
  if (!(*this)[key].is_number()) refuse(key, "it must be a number");
  const FieldLimits& range = limits_of(ours);
  const auto value = (*this)[key].get<double>();
  const bool low = range.above_min ? value > range.min : value >= range.min;
  const bool high = range.below_max ? value < range.max : value <= range.max;
  if (!low || !high) refuse(key, "it must be " + range_text(range));
  return value;
}

bool HuggingFaceReader::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!(*this)[key].is_boolean()) refuse(key, "it must be true or false");
  return (*this)[key].get<bool>();
}

std::string HuggingFaceReader::text(const char* key, const char* otherwise) const {
  if (!has(key)) return otherwise;
  if (!(*this)[key].is_string()) refuse(key, "it must be a string");
  return (*this)[key].get<std::string>();
}

std::string HuggingFaceReader::activation(const char* key, const char* otherwise) const {
  const std::string theirs = text(key, otherwise);
  for (const auto& activation : huggingface_activations) {
    if (theirs == activation.theirs) return activation.ours;
  }
  refuse(key, "supported are gelu_new, gelu_pytorch_tanh, gelu, silu, swish and relu2");
}

void HuggingFaceReader::must_be(const char* key, const Json& value) const {
  if (has(key) && (*this)[key] != value) refuse(key, "only " + value.dump() + " is supported");
}

void HuggingFaceReader::must_be_absent(const char* key, const char* why) const {
  if (!has(key)) return;
  const Json& value = (*this)[key];
  if (!value.is_structured() || !value.empty()) refuse(key, why);
}

void HuggingFaceReader::refuse(const char* key, const std::string& why) const {
  fail_input("'{}': {}{} is {}; {}", name_, prefix_, key,
             json_->contains(key) ? json_shown((*this)[key]) : "absent", why);
}

}  // namespace trireme
