// Parts of the reader for Megatron-Bridge's saved configurations (run_config.yaml).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "importers/settings/reader.h"

namespace trireme::settings {

// A key that is a flag of Megatron-LM under another name.
struct BridgeFlag {
  enum class When { given, on, off };  // with its value; without one if it is true, or false
  const char *key, *flag;
  When when = When::given;
};

// Keys with a prefix that have an effect only if another key is set, or contains a word.
struct BridgeDependent {
  const char *prefix, *on = nullptr, *word = nullptr;
};

std::span<const BridgeFlag> bridge_flags();
std::span<const BridgeDependent> bridge_dependents();
// Keys that must be there, if they have an effect.
std::span<const BridgeDependent> needed_bridge_keys();

// Handles keys without a flag: those without effect on results, and the effects of other values.
void pass_bridge_keys(Reader& reader);
std::span<const PassedSection> passed_bridge_keys();

// The flags of Megatron-LM that a configuration amounts to, and the keys that they are from.
class BridgeFlags {
 public:
  explicit BridgeFlags(Reader& reader) : reader_(reader) {}

  void turn_on(const std::string& flag, const std::string& key);
  void give(const std::string& flag, const std::string& value, const std::string& key);
  // A key with the flag's value: a number, a text, true, or a list.
  void give_value(const std::string& flag, const std::string& key);
  // The key that a flag is from, or the flag.
  std::string origin(const std::string& flag) const;
  const std::vector<std::string>& words() const { return words_; }

 private:
  Reader& reader_;
  std::vector<std::string> words_;
  std::map<std::string, std::string> keys_;  // by flag
};

// A value in the notation of a command line: lists as "[0,1]", data types as "bf16".
std::string bridge_word(const Json& value);

// Replaces the name of a recipe in `mixed_precision` with the section that it stands for; unknown
// names stay.
Json with_bridge_recipe(Json file);

// Reads the data types of weights, gradients and stages, which must agree with each other.
void read_bridge_precision(Reader& reader, BridgeFlags& flags);

// Reads the model: its class, activation, positions and initial weights.
void read_bridge_model(Reader& reader, BridgeFlags& flags);

}  // namespace trireme::settings
