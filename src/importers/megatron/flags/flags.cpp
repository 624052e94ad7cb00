// Concatenates the groups of flags, and describes rows in words.
#include "importers/megatron/flags/make.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace trireme::megatron {
namespace {

std::vector<Flag> build_table() {
  std::vector<Flag> table;
  const auto add = [&](const char* group, std::vector<Flag> flags) {
    for (Flag& flag : flags) {
      flag.group = group;
      table.push_back(std::move(flag));
    }
  };
  add("Model", model_flags());
  add("Experts", expert_flags());
  add("Training", training_flags());
  add("Learning rate", learning_rate_flags());
  add("Precision", precision_flags());
  add("Data and tokenizer", data_flags());
  add("Checkpoints", checkpoint_flags());
  add("Parallelism", parallel_flags());
  add("Logging", logging_flags());
  add("Kernels and libraries", kernel_flags());
  add("Megatron-DeepSpeed", deepspeed_flags());
  add("Other jobs", other_job_flags());
  return table;
}

const std::vector<Flag>& table() {
  static const std::vector<Flag> flags = build_table();
  return flags;
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) result.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return result;
}

void add_all(std::vector<Flag>& flags, Fate fate, const char* why, const char* names) {
  for (const std::string& word : words(names)) {
    const std::size_t equals = word.find('=');
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const Kind kind = value == "N"         ? Kind::integer
                      : value == "X"       ? Kind::number
                      : value == "TEXT"    ? Kind::text
                      : value == "N..."    ? Kind::integers
                      : value == "X..."    ? Kind::numbers
                      : value == "TEXT..." ? Kind::texts
                                           : Kind::none;
    flags.push_back({word.substr(0, equals), kind, fate, "", "", "", why});
  }
}

}  // namespace

void add_ignored(std::vector<Flag>& flags, const char* why, const char* names) {
  add_all(flags, Fate::ignored, why, names);
}

void add_refused(std::vector<Flag>& flags, const char* why, const char* names) {
  add_all(flags, Fate::refused, why, names);
}

std::span<const Flag> all_flags() {
  return table();
}

const Flag* find_flag(std::string_view name) {
  static const std::map<std::string, const Flag*, std::less<>> index = [] {
    std::map<std::string, const Flag*, std::less<>> result;
    for (const Flag& flag : table()) result.emplace(flag.name, &flag);
    return result;
  }();
  const auto at = index.find(name);
  return at == index.end() ? nullptr : at->second;
}

std::vector<std::pair<std::string, std::string>> choices(const Flag& flag) {
  std::vector<std::pair<std::string, std::string>> result;
  if (flag.kind != Kind::choice) return result;
  for (const std::string& word : words(flag.values)) {
    const std::size_t equals = word.find('=');
    result.emplace_back(word.substr(0, equals),
                        equals == std::string::npos ? word : word.substr(equals + 1));
  }
  return result;
}

std::string value_text(const Flag& flag) {
  switch (flag.kind) {
    case Kind::none:
      return "";
    case Kind::integer:
      return "N";
    case Kind::number:
      return "X";
    case Kind::text:
      return "TEXT";
    case Kind::integers:
      return "N ...";
    case Kind::numbers:
      return "X ...";
    case Kind::texts:
      return "TEXT ...";
    case Kind::choice:
      break;
  }
  std::vector<std::string> names;
  for (const auto& [theirs, ours] : choices(flag)) names.push_back(theirs);
  return fmt::format("{}", fmt::join(names, "|"));
}

std::string fate_text(const Flag& flag) {
  const std::string more = flag.text.empty() ? "" : "; " + flag.text;
  switch (flag.fate) {
    case Fate::key: {
      const std::string value = flag.kind == Kind::none ? " = " + flag.values : "";
      const std::string absent =
          flag.absent.empty() ? "" : fmt::format("; absent: `{}`", flag.absent);
      return fmt::format("`{}{}`{}{}", flag.keys, value, absent, more);
    }
    case Fate::rule:
      return fmt::format("`{}`{}", flag.keys, more);
    case Fate::ignored:
      return "accepted with a note: " + flag.text;
    case Fate::refused:
      return flag.values.empty()
                 ? fmt::format("refused: {}", flag.text)
                 : fmt::format("only `{}`: {}", fmt::join(words(flag.values), "`, `"), flag.text);
  }
  return flag.text;
}

}  // namespace trireme::megatron
