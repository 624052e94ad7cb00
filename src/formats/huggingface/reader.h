// Typed reader for config.json; every error names file, key and value. Keys left unread are refused
// at the end, so that no setting is silently ignored.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "config/choices.h"

namespace trireme {

// A key without effect on the model's computation, with any value, or only with values in the JSON
// list `only`.
struct HuggingFaceInertKey {
  const char* key;
  const char* only = nullptr;
};

class HuggingFaceReader {
 public:
  using Json = nlohmann::json;

  // `name` stands for the file in messages and must outlive the reader.
  HuggingFaceReader(std::string_view text, const std::string& name);

  // The object at a key; messages prefix its keys with "KEY.".
  HuggingFaceReader section(const char* key) const;

  const std::string& name() const { return state_->name; }
  // The whole object, and the value of an existing key.
  const Json& json() const { return *json_; }
  const Json& operator[](const char* key) const;
  // has(): the key exists and is not null; is_null(): it exists and is null. Callers handle null
  // themselves; the functions below refuse it.
  bool has(const char* key) const;
  bool is_null(const char* key) const;
  // Returns which of two names of a setting exists, else the first; refuses both unless equal.
  const char* either(const char* key, const char* alias) const;

  // Numbers: `ours` is the key of [model] or [moe] that stores the value; its range applies.
  // Without a default the key is required.
  std::int64_t size(const char* key, const char* ours) const;
  std::int64_t size(const char* key, const char* ours, std::int64_t otherwise) const;
  double number(const char* key, const char* ours) const;
  double number(const char* key, const char* ours, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const char* otherwise) const;
  MlpActivation activation(const char* key, const char* otherwise) const;

  // Refuse a setting with another effect: any value but `value`, or any value at all (null and
  // empty lists count as absent).
  void must_be(const char* key, const Json& value) const;
  void must_be_absent(const char* key, const char* why) const;
  [[noreturn]] void refuse(const char* key, const std::string& why) const;

  // Marks keys as read that have no effect given the other values, such as the window's size if no
  // layer has a window.
  void pass_over(std::initializer_list<const char*> keys) const;
  // Refuses keys of this object that were not read and are not listed as inert. `owner`: the class
  // that would use them, for the message.
  void refuse_unread(const std::string& owner,
                     std::initializer_list<std::span<const HuggingFaceInertKey>> inert = {}) const;

  // A note for the user; appended to earlier notes.
  void note(const std::string& text) const;
  const std::string& notes() const { return state_->notes; }

 private:
  // Shared by a reader and its sections.
  struct State {
    const std::string& name;
    std::set<std::string> read;  // keys, prefixed by their sections
    std::string notes;
  };

  HuggingFaceReader(std::shared_ptr<State> state, const Json& json, std::string prefix);
  void require(const char* key) const;
  void mark(const char* key) const { state_->read.insert(prefix_ + key); }

  std::shared_ptr<State> state_;
  std::shared_ptr<const Json> json_;
  std::string prefix_;
};

}  // namespace trireme
