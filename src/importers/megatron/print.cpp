// Prints translations as TOML, and the table of flags as help.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "config/fields.h"
#include "importers/megatron/flags/flags.h"
#include "importers/megatron/translate.h"

namespace trireme::megatron {
namespace {

std::string override_key(const std::string& text) {
  return text.substr(0, text.find('='));
}

// Column of trailing comments, unless the value is longer.
constexpr std::size_t kCommentColumn = 40;

std::string padded_line(const std::string& line, const std::string& comment) {
  if (line.size() > 2 * kCommentColumn) return fmt::format("# {}\n{}\n", comment, line);
  return fmt::format("{:<{}}  # {}\n", line, kCommentColumn, comment);
}

// Removes Markdown code quotes.
std::string unquoted(std::string text) {
  std::erase(text, '`');
  return text;
}

}  // namespace

Config to_config(const Translation& translation) {
  std::vector<std::string> values;
  for (const Setting& setting : translation.settings)
    values.push_back(fmt::format("{}={}", setting.key, setting.value));
  values.insert(values.end(), translation.overrides.begin(), translation.overrides.end());
  return parse_config("", "the translated flags", values);
}

std::string to_toml(const Translation& translation) {
  Config config = to_config(translation);
  std::map<std::string, std::string> origins;
  for (const Setting& setting : translation.settings) origins[setting.key] = setting.origin;
  for (const std::string& text : translation.overrides) origins[override_key(text)] = "override";
  std::string text, section;
  for (const Field& field : all_fields()) {
    const auto origin = origins.find(field.key());
    if (origin == origins.end()) continue;
    if (field.section != section) {
      text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", field.section);
      section = field.section;
    }
    text += padded_line(fmt::format("{} = {}", field.name, toml_value(field.slot(config))),
                        origin->second);
  }
  return text;
}

std::string help(Program program) {
  const char* name = program == Program::gpt ? "pretrain-gpt" : "pretrain-bert";
  std::string text = fmt::format(
      R"(Train from the flags of an existing Megatron script

trireme {} [--print-config] [--json] [--nproc N] [--restarts N] FLAGS... [section.key=value...]

  --print-config   print the configuration as TOML for `trireme train`, and stop
  --json           print the summary as JSON; progress goes to stderr
  --nproc N        start N processes on this machine with mpirun
  --restarts N     after a failure, restart the run, at most N times in a row without a new checkpoint
  --restart-wait S seconds before the first restart (default 5); doubles with each further restart
  --log-level L    log level of the terminal: error, warning, info (default) or debug
  --help           print this text

Flags are written as for Megatron; if a flag is repeated, the last one applies. Each flag accepted
without effect gets one note. docs/from-megatron.md describes how to migrate scripts, data and
checkpoints.
)",
      name);
  std::string group;
  for (const Flag& flag : all_flags()) {
    if (flag.bert_only && program != Program::bert) continue;
    if (flag.group != group) {
      group = flag.group;
      text += fmt::format("\n{}:\n", group);
    }
    const std::string value = value_text(flag);
    const std::string line = fmt::format("  {}{}{}\n", flag.name, value.empty() ? "" : " ", value);
    const std::string what =
        fmt::format("      {}{}\n", unquoted(fate_text(flag)), flag.required ? "; required" : "");
    // Flags with one meaning share its line.
    if (text.ends_with(what)) text.erase(text.size() - what.size());
    text += line + what;
  }
  return text;
}

}  // namespace trireme::megatron
