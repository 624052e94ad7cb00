// Applies another system's settings to a configuration built from answers.
#include "cli/configure/config_from.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/counted.h"
#include "base/error.h"

namespace trireme::cli {
namespace {

using megatron::Setting;

// Keys covered by a question: its answer, with the file's value as the default, takes precedence.
struct Asked {
  const char* key;
  const char* question;
};
constexpr std::array<Asked, 5> asked = {{{"run.precision", "precision"},
                                         {"model.seq_length", "seq-length"},
                                         {"train.global_batch_size", "batch"},
                                         {"train.iters", "iters"},
                                         {"optimizer.lr", "lr"}}};

// The device follows from the machine, which is a question.
bool is_asked(const std::string& key) {
  return key == "run.device" ||
         std::ranges::any_of(asked, [&](const Asked& a) { return a.key == key; });
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string line_of(const Setting& setting) {
  const std::string key = setting.key.substr(setting.key.find('.') + 1);
  return fmt::format("{} = {}  # {}", key, setting.value, setting.origin);
}

// Returns the line of a section's last key, or its header; the end if the section is missing.
std::size_t last_line(const std::vector<std::string>& lines, const std::string& section) {
  std::size_t last = lines.size();
  bool inside = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with('[')) inside = lines[i] == "[" + section + "]";
    if (inside && !lines[i].empty() && !lines[i].starts_with('#')) last = i;
  }
  return last;
}

std::size_t line_with(const std::vector<std::string>& lines, const std::string& section,
                      const std::string& key) {
  bool inside = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with('[')) inside = lines[i] == "[" + section + "]";
    if (inside && lines[i].starts_with(key + " =")) return i;
  }
  return lines.size();
}

void put(std::vector<std::string>& lines, const Setting& setting) {
  const std::string section = setting.key.substr(0, setting.key.find('.'));
  const std::string key = setting.key.substr(section.size() + 1);
  if (const std::size_t place = line_with(lines, section, key); place < lines.size()) {
    lines[place] = line_of(setting);
    return;
  }
  const std::size_t last = last_line(lines, section);
  if (last < lines.size()) {
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(last) + 1, line_of(setting));
  } else {
    lines.insert(lines.end(), {"", "[" + section + "]", line_of(setting)});
  }
}

std::string without_quotes(const std::string& toml) {
  return toml.size() >= 2 && toml.front() == '"' ? toml.substr(1, toml.size() - 2) : toml;
}

}  // namespace

settings::SettingsFile settings_to_start_from(const std::string& file, std::int64_t nodes,
                                              std::int64_t per_node) {
  if (!settings::is_settings_file(file))
    fail_input("--from '{}': expected a .yaml, .json or .toml file of another system", file);
  settings::SettingsFile result = settings::read_settings_file(file, 0);
  const std::int64_t own_nodes = std::max<std::int64_t>(1, result.nodes);
  const std::int64_t ranks = per_node * (nodes > 0 ? nodes : own_nodes);
  if (result.ranks > 0 && ranks > 0 && ranks != result.ranks)
    fail_input("--from '{}': the file is for {}, but --ranks{} is {}", file,
               counted(result.ranks, "rank"), nodes > 0 ? " and --nodes" : "", ranks);
  if (result.ranks == 0 && ranks > 0) result = settings::read_settings_file(file, ranks);
  std::string lost;
  for (const megatron::Note& note : result.translation.lost)
    lost += fmt::format("{}{} {}", lost.empty() ? "" : "; ", note.flag, note.text);
  if (!lost.empty())
    fail_input(
        "--from '{}': some settings cannot be carried over: {}. To continue without them, remove "
        "them from a copy of the file",
        file, lost);
  return result;
}

std::string value_of(const settings::SettingsFile& file, const std::string& key) {
  const auto& all = file.translation.settings;
  const auto found = std::ranges::find(all, key, &Setting::key);
  return found == all.end() ? "" : found->value;
}

std::map<std::string, std::string> answers_of(const settings::SettingsFile& file) {
  std::map<std::string, std::string> answers;
  for (const Asked& a : asked) {
    const std::string value = value_of(file, a.key);
    if (!value.empty()) answers[a.question] = without_quotes(value);
  }
  if (file.nodes > 0) answers["nodes"] = std::to_string(file.nodes);
  if (file.ranks > 0)
    answers["ranks"] = std::to_string(file.ranks / std::max<std::int64_t>(1, file.nodes));
  return answers;
}

std::string with_settings_of(const settings::SettingsFile& file, const std::string& toml) {
  std::vector<std::string> lines = lines_of(toml);
  for (const Setting& setting : file.translation.settings)
    if (!is_asked(setting.key)) put(lines, setting);
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace trireme::cli
