// A value in a JSON file with the path that leads to it, so that every message can name the place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

class JsonPlace {
 public:
  // `value` and `file` must outlive this object.
  JsonPlace(const nlohmann::json& value, const std::string& file) : value_(&value), file_(&file) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return *file_; }
  // "'tokenizer.json': model.vocab".
  std::string name() const;
  // Ends with a message that begins with the place.
  [[noreturn]] void refuse(std::string_view what) const;
  // The same for a value that is not `wanted`, as in "a string"; says what it is.
  [[noreturn]] void refuse_kind(std::string_view wanted) const;

  bool is_null() const;
  bool is_text() const;
  // Whether this is an object that has `key` with a value other than null.
  bool has(const std::string& key) const;
  // Number of elements of an array or object; any other value is refused.
  std::size_t size() const;

  // Required members. Errors name the missing key or the wrong type, or report values nested
  // without end.
  JsonPlace at(const std::string& key) const;
  JsonPlace at(std::size_t index) const;
  const std::string& text() const;
  std::int32_t id() const;

  // Optional members, which may be null or missing.
  std::string text_or(const std::string& key, std::string_view absent) const;
  bool flag_or(const std::string& key, bool absent) const;
  std::uint64_t count_or(const std::string& key, std::uint64_t absent) const;

 private:
  JsonPlace inside(const nlohmann::json& value, std::string path) const;

  const nlohmann::json* value_;
  const std::string* file_;
  std::string path_;
  int depth_ = 0;
};

// Parses a whole file of JSON. Errors: not JSON, with line and column.
std::shared_ptr<const nlohmann::json> parse_json_file(const std::string& file,
                                                      std::string_view content);

}  // namespace trireme
