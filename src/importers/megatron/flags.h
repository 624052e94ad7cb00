// Megatron's pre-training flags and how each is translated: one table, which the parser, the help
// and docs/from-megatron.md read. Names, types and defaults are those of Megatron-LM (core 0.12)
// and, where a line says so, of Megatron-DeepSpeed.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::megatron {

// The values that follow a flag: none, one, or any number.
enum class Kind { none, integer, number, text, choice, integers, texts };

enum class Fate {
  key,      // its value becomes the value of a configuration key
  rule,     // decides one or more keys together with other flags (translate_*.cpp)
  ignored,  // has no effect; `text` gives the reason why none is needed
  refused   // asks for something that is not available; `text` says what to do
};

struct Flag {
  std::string name;  // "--num-layers"
  Kind kind = Kind::none;
  Fate fate = Fate::key;
  std::string keys;    // key: "section.key"; rule: all that it touches, ", " between
  std::string values;  // choice: "theirs=ours theirs=ours"; none: what the key becomes
                       // refused: values that mean Megatron's default, thus harmless
  std::string absent;  // key: Megatron's default, as our value; "": none
  std::string text;    // one line for people
  bool required = false;
  bool bert_only = false;
  std::string group;  // filled by all_flags()
};

// The whole table, group by group.
std::span<const Flag> all_flags();

// The flag of that name; null where there is none.
const Flag* find_flag(std::string_view name);

// What a choice accepts: {"theirs", "ours"} pairs; ours is theirs where the table gives none.
std::vector<std::pair<std::string, std::string>> choices(const Flag& flag);

// "N", "X", "A|B", "X ...": how help and documentation write the value.
std::string value_text(const Flag& flag);

// What becomes of the flag, in one line of Markdown.
std::string fate_text(const Flag& flag);

// The groups; flags_*.cpp hold them.
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

}  // namespace trireme::megatron
