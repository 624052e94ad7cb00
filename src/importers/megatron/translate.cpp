// Translates flags to settings: first flags that map to one key, then the rules.
#include "importers/megatron/translate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "config/fields.h"
#include "config/run_rules.h"
#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

bool wants_text(const std::string& key) {
  static Config config;
  const Field* field = find_field(key);
  TRIREME_CHECK(field != nullptr);
  return is_text(field->slot(config));
}

std::string as_toml(const Flag& flag, const std::vector<std::string>& values) {
  switch (flag.kind) {
    case Kind::none:
      return wants_text(flag.keys) ? toml_string(flag.values) : flag.values;
    case Kind::integer:
    case Kind::number:
      return values.at(0);
    case Kind::text:
      return toml_string(values.at(0));
    case Kind::integers:
    case Kind::numbers:
      return fmt::format("[{}]", fmt::join(values, ", "));
    case Kind::texts: {
      std::vector<std::string> quoted;
      quoted.reserve(values.size());
      for (const std::string& value : values) quoted.push_back(toml_string(value));
      return fmt::format("[{}]", fmt::join(quoted, ", "));
    }
    case Kind::choice:
      break;
  }
  for (const auto& [theirs, ours] : choices(flag)) {
    if (theirs == values.at(0)) return toml_string(ours);
  }
  return toml_string(values.at(0));
}

void take_defaults(Draft& draft) {
  for (const Flag& flag : all_flags()) {
    if (flag.fate != Fate::key || flag.absent.empty()) continue;
    if (flag.bert_only && draft.program() != Program::bert) continue;
    const std::string& value = flag.absent;
    draft.set(flag.keys, wants_text(flag.keys) ? toml_string(value) : value, kDefault);
  }
}

void take_given(Draft& draft) {
  for (const std::string& name : draft.line().order) {
    const Flag& flag = *find_flag(name);
    if (!draft.has(name)) continue;  // removed by a rule
    if (flag.bert_only && draft.program() != Program::bert) {
      draft.note(name, "has an effect only with pretrain-bert");
    } else if (flag.fate == Fate::ignored) {
      draft.note(name, flag.text);
    } else if (flag.fate == Fate::key) {
      draft.set(flag.keys, as_toml(flag, draft.line().flags[name]), name);
    }
  }
}

// Whether a refused flag would have named the data: one complaint is enough.
bool refused_data(Draft& draft) {
  const std::set<std::string>& refused = draft.line().refused;
  return std::any_of(refused.begin(), refused.end(), [](const std::string& name) {
    for (const char* flag :
         {"--data-file-list", "--data-args-path", "--per-split-data-args-path", "--mock-data",
          "--train-weighted-split-paths", "--train-weighted-split-paths-path"}) {
      if (name == flag) return true;
    }
    return false;
  });
}

void check_required(Draft& draft) {
  std::vector<std::string> missing;
  for (const Flag& flag : all_flags()) {
    if (flag.required && !draft.has(flag.name)) missing.push_back(flag.name);
  }
  if (!draft.has("--train-iters") && !draft.has("--train-samples")) {
    missing.push_back("--train-iters (or --train-samples)");
  }
  if (!draft.has("--data-path") && !draft.has("--train-data-path") && !refused_data(draft)) {
    missing.push_back("--data-path (or --train-data-path)");
  }
  if (missing.empty()) return;
  draft.miss(fmt::format("{}", fmt::join(missing, ", ")));
}

// Sorts settings in the order of the key table.
void sort(std::vector<Setting>& settings) {
  std::map<std::string, std::size_t> rank;
  for (const Field& field : all_fields()) rank.emplace(field.key(), rank.size());
  std::sort(settings.begin(), settings.end(),
            [&](const Setting& a, const Setting& b) { return rank.at(a.key) < rank.at(b.key); });
}

std::vector<std::string> flags_of_key(const std::string& key) {
  std::vector<std::string> names;
  for (const Flag& flag : all_flags()) {
    const bool counts = flag.fate == Fate::key || flag.fate == Fate::rule;
    if (counts && (", " + flag.keys + ", ").find(", " + key + ", ") != std::string::npos)
      names.push_back(flag.name);
  }
  return names;
}

bool continues_key(char c) {
  return (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9') || c == '.';
}

bool mentions(const std::string& message, const std::string& key) {
  for (std::size_t at = message.find(key); at != std::string::npos;
       at = message.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    if (end >= message.size() || !continues_key(message[end])) return true;
  }
  return false;
}

}  // namespace

std::string Draft::value(const std::string& flag) const {
  const auto at = line_.flags.find(flag);
  return at == line_.flags.end() || at->second.empty() ? "" : at->second.back();
}

std::int64_t Draft::integer(const std::string& flag, std::int64_t otherwise) const {
  const std::string text = value(flag);
  std::int64_t number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

double Draft::number(const std::string& flag, double otherwise) const {
  const std::string text = value(flag);
  double number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void Draft::give(const std::string& flag, const std::string& value) {
  if (!has(flag)) line_.order.push_back(flag);
  line_.flags[flag] = {value};
}

void Draft::give(const std::string& flag, std::vector<std::string> values) {
  if (!has(flag)) line_.order.push_back(flag);
  line_.flags[flag] = std::move(values);
}

void Draft::set(const std::string& key, const std::string& value, const std::string& origin) {
  const auto [at, is_new] = index_.emplace(key, translation_.settings.size());
  if (is_new) {
    translation_.settings.push_back({key, value, origin});
  } else {
    translation_.settings[at->second] = {key, value, origin};
  }
}

void Draft::set_text(const std::string& key, const std::string& text, const std::string& origin) {
  set(key, toml_string(text), origin);
}

void Draft::note(const std::string& flag, const std::string& text) {
  translation_.notes.push_back({flag, text});
}

void Draft::ask(const std::string& flag, const std::string& text, const std::string& key) {
  const std::string answer = fmt::format("{}={}", key, translation_.settings[index_.at(key)].value);
  const bool agreed = std::ranges::any_of(
      line_.overrides, [&](const std::string& given) { return given.starts_with(key + "="); });
  if (agreed || options_.model_only) return note(flag, text);
  complaints_.add(flag, fmt::format("{}; to confirm, add {}", text, answer));
}

void Draft::miss(const std::string& flags) {
  complaints_.add(program() == Program::gpt ? "pretrain-gpt" : "pretrain-bert", "needs " + flags);
  translation_.missing = flags;
}

bool Draft::contradicts(const std::string& flag, const std::string& other, const std::string& why) {
  if (!has(flag) || !has(other)) return false;
  complaints_.add(other, fmt::format("contradicts {}: {}", flag, why));
  line_.flags.erase(other);
  return true;
}

Translation translate(std::span<const std::string> arguments, const TranslateOptions& options) {
  Translation translation;
  Complaints complaints(options.lenient, translation.lost);
  CommandLine line = parse_command_line(arguments, options.program, complaints);
  Draft draft(options, line, complaints, translation);
  read_deepspeed(draft, options);
  read_blend_files(draft, options);
  read_hybrid_pattern(draft);
  reconcile(draft);
  take_defaults(draft);
  take_given(draft);
  check_required(draft);
  translate_model(draft);
  translate_experts(draft);
  translate_fp8(draft);
  translate_run(draft);
  translate_checkpoint(draft);
  translate_parallel(draft);
  note_unread(draft, translation);
  translation.overrides = line.overrides;
  sort(translation.settings);
  translation.lost_beyond = complaints.beyond();
  return translation;
}

void put(Translation& translation, Setting setting) {
  std::erase_if(translation.settings, [&](const Setting& s) { return s.key == setting.key; });
  translation.settings.push_back(std::move(setting));
  sort(translation.settings);
}

void check(const Config& config, std::int64_t ranks) {
  try {
    ranks > 0 ? check_run(config, ranks) : validate(config);
  } catch (const Error& error) {
    std::string flags;
    for (const Field& field : all_fields()) {
      if (!mentions(error.what(), field.key())) continue;
      const std::vector<std::string> names = flags_of_key(field.key());
      if (names.empty()) continue;
      flags +=
          fmt::format("{}{} is {}", flags.empty() ? "" : "; ", field.key(), fmt::join(names, ", "));
    }
    throw Error(error.code(), error.what() + (flags.empty() ? "" : " (" + flags + ")"));
  }
}

}  // namespace trireme::megatron
