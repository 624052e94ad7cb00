// Reads the keys of a config.json with their types; every error names file, key and value.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

class HuggingFaceReader {
 public:
  using Json = nlohmann::json;

  // `name` stands for the file in messages and must outlive the reader.
  HuggingFaceReader(std::string_view text, const std::string& name);

  // The object at a key; messages about its keys begin with "KEY.".
  HuggingFaceReader section(const char* key) const;

  const std::string& name() const { return name_; }
  // The whole object, and the value of a key that is there.
  const Json& json() const { return *json_; }
  const Json& operator[](const char* key) const;
  // Whether a key is there and not null; is_null(): it is there, and null.
  bool has(const char* key) const;
  bool is_null(const char* key) const;

  // Numbers: `ours` is the key of [model] or [moe] that the value becomes; its range applies.
  // Without a default the key is required.
  std::int64_t size(const char* key, const char* ours) const;
  std::int64_t size(const char* key, const char* ours, std::int64_t otherwise) const;
  double number(const char* key, const char* ours) const;
  double number(const char* key, const char* ours, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const char* otherwise) const;
  // One of our names of activations.
  std::string activation(const char* key, const char* otherwise) const;

  // Refuses a setting that would compute something else: any but `value`, and any at all (null and
  // empty lists are none).
  void must_be(const char* key, const Json& value) const;
  void must_be_absent(const char* key, const char* why) const;
  [[noreturn]] void refuse(const char* key, const std::string& why) const;

 private:
  HuggingFaceReader(const std::string& name, const Json& json, std::string prefix);
  void require(const char* key) const;

  const std::string& name_;
  std::shared_ptr<const Json> json_;
  std::string prefix_;
};

}  // namespace trireme
