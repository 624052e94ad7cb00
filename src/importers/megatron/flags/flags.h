// Megatron's pre-training flags and their translations: one table, used by the parser, the help and
// docs/from-megatron.md. Names, types and defaults are those of Megatron-LM (core 0.12 to
// 0.20) and, where noted, of Megatron-DeepSpeed.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::megatron {

// Type of the values after a flag: none, a single value, or any number of values.
enum class Kind { none, integer, number, text, choice, integers, numbers, texts };

enum class Fate {
  key,      // its value is assigned to a configuration key
  rule,     // determines keys together with other flags (rules_*.cpp)
  ignored,  // has no effect; `text` gives the reason
  refused   // requests an unsupported feature; `text` gives advice
};

struct Flag {
  std::string name;  // "--num-layers"
  Kind kind = Kind::none;
  Fate fate = Fate::key;
  std::string keys;    // key: "section.key"; rule: all affected keys, separated by ", "
  std::string values;  // choice: "theirs=ours theirs=ours"; none: value assigned to the key
                       // refused: accepted values, which mean Megatron's default
  std::string absent;  // key: Megatron's default in our notation; "": none
  std::string text;    // description in one line
  bool required = false;
  bool bert_only = false;
  std::string group;  // filled by all_flags()
};

// The whole table, group by group.
std::span<const Flag> all_flags();

// The flag of that name; null if unknown.
const Flag* find_flag(std::string_view name);

// Accepted values of a choice, as {"theirs", "ours"} pairs; both are equal if the table has one.
std::vector<std::pair<std::string, std::string>> choices(const Flag& flag);

// The value's notation in help and documentation: "N", "X", "A|B", "X ...".
std::string value_text(const Flag& flag);

// Describes how the flag is handled, in one line of Markdown.
std::string fate_text(const Flag& flag);

// Groups of flags, defined in flags_*.cpp.
std::vector<Flag> model_flags();
std::vector<Flag> expert_flags();
std::vector<Flag> training_flags();
std::vector<Flag> learning_rate_flags();
std::vector<Flag> precision_flags();
std::vector<Flag> data_flags();
std::vector<Flag> checkpoint_flags();
std::vector<Flag> parallel_flags();
std::vector<Flag> logging_flags();
std::vector<Flag> kernel_flags();
std::vector<Flag> deepspeed_flags();
std::vector<Flag> other_job_flags();

}  // namespace trireme::megatron
