// Settings files of other systems become ours.
#include "cli/import_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "importers/megatron/run_device.h"
#include "importers/script/launch.h"
#include "importers/script/report.h"
#include "importers/settings/settings_file.h"

namespace trireme::cli {
namespace {

using settings::SettingsFile;

// The three systems train on GPUs, unless the file itself says otherwise.
void set_device(SettingsFile& file, const std::string& said, const std::string& name) {
  const bool decided = std::ranges::any_of(
      file.translation.settings, [](const auto& setting) { return setting.key == "run.device"; });
  if (decided && said.empty()) return;
  const std::string text = read_file(name);
  megatron::set_run_device(file.translation, said, {&text, 1});
}

std::string launch_of(const SettingsFile& file, const std::string& configuration) {
  script::LaunchSize size;
  size.nodes = std::max<std::int64_t>(1, file.nodes);
  size.per_node = file.ranks / size.nodes;
  return script::launch_line(size, configuration);
}

// Keys that were read and change no number, in lines of a comment.
std::string passed_keys(const SettingsFile& file) {
  constexpr std::size_t width = 98;
  std::string text, line;
  for (const std::string& key : file.passed) {
    if (line.size() + key.size() > width) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "#   " : " ") + key;
  }
  return line.empty() ? "" : "#\n# Without effect on the results here:\n" + text + line + "\n";
}

std::string text_of(const std::string& name, const SettingsFile& file, const std::string& output) {
  std::string text = fmt::format("# From {} of {}.\n# Launch: {}\n# Not in the file: {}.\n", name,
                                 settings::name_of(file.system),
                                 launch_of(file, output.empty() ? "FILE.toml" : output), file.open);
  const auto list = [&](const char* title, const std::vector<megatron::Note>& notes) {
    if (!notes.empty()) text += fmt::format("#\n# {}\n", title);
    for (const megatron::Note& note : notes)
      text += fmt::format("#   {} {}\n", note.flag, note.text);
  };
  list("Not carried over:", file.translation.lost);
  list("Notes:", file.translation.notes);
  text += passed_keys(file);
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return c != '\n' && static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text + "\n" + megatron::to_toml(file.translation);
}

}  // namespace

void import_settings(const std::string& name, std::int64_t ranks, const std::string& device,
                     const std::string& output) {
  SettingsFile file = settings::read_settings_file(name, ranks);
  set_device(file, device, name);
  const std::string text = text_of(name, file, output);
  if (output.empty()) {
    fmt::print("{}", text);
  } else {
    write_file_durably(output, text);
    fmt::print("settings written to {}\n", output);
  }
  std::fflush(stdout);
  const auto& lost = file.translation.lost;
  if (lost.empty()) return;
  fail_input(
      "{} could not be carried over, so this would be a different training: see 'Not carried "
      "over'{}",
      lost.size() == 1 ? fmt::format("'{}'", lost[0].flag)
                       : fmt::format("{} settings", lost.size()),
      output.empty() ? " above" : fmt::format(" in {}", output));
}

}  // namespace trireme::cli
