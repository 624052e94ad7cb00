// Typed access to JSON with messages that say where.
#include "tokenizer/json_place.h"

#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"

namespace trireme {

using nlohmann::json;

// No vocabulary in use comes near; an id beyond it would only take memory.
constexpr std::uint64_t kMaxId = (std::uint64_t{1} << 24) - 1;
// Deeper than any real file; what reads a file may recurse as deep as its values.
constexpr int kMaxDepth = 64;

std::string JsonPlace::name() const {
  return path_.empty() ? fmt::format("'{}'", *file_) : fmt::format("'{}': {}", *file_, path_);
}

void JsonPlace::refuse(std::string_view what) const {
  fail_input("{} {}", name(), what);
}

void JsonPlace::refuse_kind(std::string_view wanted) const {
  refuse(fmt::format("is {}, not {}", json_shown(*value_), wanted));
}

bool JsonPlace::is_null() const {
  return value_->is_null();
}
bool JsonPlace::is_text() const {
  return value_->is_string();
}

bool JsonPlace::has(const std::string& key) const {
  if (!value_->is_object()) return false;
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

std::size_t JsonPlace::size() const {
  if (!value_->is_array() && !value_->is_object()) refuse_kind("a list or an object");
  return value_->size();
}

JsonPlace JsonPlace::inside(const json& value, std::string path) const {
  if (depth_ == kMaxDepth) refuse("lies too deep within other values");
  JsonPlace place(value, *file_);
  place.path_ = std::move(path);
  place.depth_ = depth_ + 1;
  return place;
}

JsonPlace JsonPlace::at(const std::string& key) const {
  if (!value_->is_object()) refuse_kind("an object");
  const auto found = value_->find(key);
  if (found == value_->end()) refuse(fmt::format("has no '{}'", key));
  return inside(*found, path_.empty() ? key : path_ + "." + key);
}

JsonPlace JsonPlace::at(std::size_t index) const {
  if (!value_->is_array()) refuse_kind("a list");
  if (index >= value_->size())
    refuse(fmt::format("has only {}", counted(value_->size(), "element")));
  return inside((*value_)[index], fmt::format("{}[{}]", path_, index));
}

const std::string& JsonPlace::text() const {
  if (!value_->is_string()) refuse_kind("a string");
  return value_->get_ref<const std::string&>();
}

std::int32_t JsonPlace::id() const {
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > kMaxId) {
    refuse_kind(fmt::format("an id from 0 to {}", kMaxId));
  }
  return value_->get<std::int32_t>();
}

std::string JsonPlace::text_or(const std::string& key, std::string_view absent) const {
  return has(key) ? at(key).text() : std::string(absent);
}

bool JsonPlace::flag_or(const std::string& key, bool absent) const {
  if (!has(key)) return absent;
  const JsonPlace place = at(key);
  if (!place.value().is_boolean()) place.refuse_kind("true or false");
  return place.value().get<bool>();
}

std::uint64_t JsonPlace::count_or(const std::string& key, std::uint64_t absent) const {
  if (!has(key)) return absent;
  const JsonPlace place = at(key);
  if (!place.value().is_number_unsigned()) place.refuse_kind("a whole number from 0 up");
  return place.value().get<std::uint64_t>();
}

std::shared_ptr<const json> parse_json_file(const std::string& file, std::string_view content) {
  return std::make_shared<const json>(parse_json(content, file));
}

}  // namespace trireme
