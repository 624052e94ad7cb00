// Reads the keys of a config.json with their types; every error names file, key and value. What no
// one has read at the end is refused, so that no key is left out without a word.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// A key that changes nothing that a model computes: with any value, or with those of the JSON list
// `only` alone.
struct HuggingFaceInertKey {
  const char* key;
  const char* only = nullptr;
};

class HuggingFaceReader {
 public:
  using Json = nlohmann::json;

  // `name` stands for the file in messages and must outlive the reader.
  HuggingFaceReader(std::string_view text, const std::string& name);

  // The object at a key; messages about its keys begin with "KEY.".
  HuggingFaceReader section(const char* key) const;

  const std::string& name() const { return state_->name; }
  // The whole object, and the value of a key that is there.
  const Json& json() const { return *json_; }
  const Json& operator[](const char* key) const;
  // Whether a key is there and not null; is_null(): it is there, and null. Whoever asks takes care
  // of null; the functions below refuse it.
  bool has(const char* key) const;
  bool is_null(const char* key) const;
  // Which of two names of one setting is there, or the first; both are refused unless equal.
  const char* either(const char* key, const char* alias) const;

  // Numbers: `ours` is the key of [model] or [moe] that the value becomes; its range applies.
  // Without a default the key is required.
  std::int64_t size(const char* key, const char* ours) const;
  std::int64_t size(const char* key, const char* ours, std::int64_t otherwise) const;
  double number(const char* key, const char* ours) const;
  double number(const char* key, const char* ours, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const char* otherwise) const;
  MlpActivation activation(const char* key, const char* otherwise) const;

  // Refuses a setting that would compute something else: any but `value`, and any at all (null and
  // empty lists are none).
  void must_be(const char* key, const Json& value) const;
  void must_be_absent(const char* key, const char* why) const;
  [[noreturn]] void refuse(const char* key, const std::string& why) const;

  // Keys that have no effect next to the values of others, such as the size of a window that no
  // layer has.
  void pass_over(std::initializer_list<const char*> keys) const;
  // Refuses the keys of this object that nothing has read and that no list calls inert.
  // `owner`: whose keys they would be, for the message.
  void refuse_unread(const std::string& owner,
                     std::initializer_list<std::span<const HuggingFaceInertKey>> inert = {}) const;

  // What the user should know; appended to what was noted before.
  void note(const std::string& text) const;
  const std::string& notes() const { return state_->notes; }

 private:
  // Shared by a reader and its sections.
  struct State {
    const std::string& name;
    std::set<std::string> read;  // keys, with those of their sections in front
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
