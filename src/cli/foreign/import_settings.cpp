// Converts settings files of other systems.
#include "cli/foreign/import_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "importers/megatron/run_device.h"
#include "importers/script/launch.h"
#include "importers/script/report.h"
#include "importers/settings/command_line.h"
#include "importers/settings/settings_file.h"

namespace trireme::cli {
namespace {

using settings::SettingsFile;
using settings::SettingsLaunch;

// All systems train on GPUs unless the file specifies otherwise. `hints`: texts of the
// source, most reliable first.
void set_device(SettingsFile& file, const std::string& said,
                const std::vector<std::string>& hints) {
  const bool decided = std::ranges::any_of(
      file.translation.settings, [](const auto& setting) { return setting.key == "run.device"; });
  if (decided && said.empty()) return;
  megatron::set_run_device(file.translation, said, hints);
}

script::LaunchSize size_of(const SettingsFile& file) {
  script::LaunchSize size;
  size.nodes = std::max<std::int64_t>(1, file.nodes);
  size.per_node = file.ranks / size.nodes;
  return size;
}

// Keys that were read but have no effect on results, as comment lines.
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
  return line.empty() ? "" : "#\n# No effect on results in Trireme:\n" + text + line + "\n";
}

std::string text_of(const std::string& name, const SettingsFile& file,
                    const script::LaunchSize& size, const std::string& output) {
  std::string text =
      fmt::format("# From {} of {}.\n# Launch: {}\n", name, settings::name_of(file.system),
                  script::launch_line(size, output.empty() ? "FILE.toml" : output));
  if (!file.open.empty()) text += fmt::format("# Not in the file: {}.\n", file.open);
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

// Prints or writes the settings, and fails if the resulting training is not equivalent.
void give(const std::string& name, const SettingsFile& file, const script::LaunchSize& size,
          const std::string& output) {
  const std::string text = text_of(name, file, size, output);
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
      "{} could not be carried over, so the result would be a different training run: see 'Not "
      "carried over'{}",
      lost.size() == 1 ? fmt::format("'{}'", lost[0].flag) : counted(lost.size(), "setting"),
      output.empty() ? " above" : fmt::format(" in {}", output));
}

struct Found {
  std::size_t call;
  SettingsLaunch launch;
};

// The distinct trainings of a script that are described by settings files.
std::vector<Found> find_in(const script::ScriptRun& run) {
  std::vector<Found> found;
  for (std::size_t i = run.calls.size(); i-- > 0;) {  // launchers are called before their commands
    if (run.calls[i].kind != script::Call::Kind::call) continue;
    auto launch = settings::find_settings_launch(run.calls[i].arguments);
    if (launch && std::ranges::find(found, *launch, &Found::launch) == found.end())
      found.insert(found.begin(), {i, std::move(*launch)});
  }
  return found;
}

const Found& pick(const std::vector<Found>& found, const script::ScriptRun& run,
                  const std::string& script, int wanted) {
  if (wanted > static_cast<int>(found.size()))
    fail_input("{}: --launch {}: the script starts only {}", script, wanted,
               counted(found.size(), "training"));
  if (wanted > 0) return found[static_cast<std::size_t>(wanted - 1)];
  if (found.size() == 1) return found.front();
  std::string list;
  for (const auto& [call, launch] : found)
    list += fmt::format("\n  line {}: {} {} {}", run.calls[call].line, launch.option, launch.file,
                        fmt::join(launch.options, " "));
  fail_input("{}: the script starts {} different trainings: choose one with --launch N:{}", script,
             found.size(), list);
}

}  // namespace

void import_settings(const std::string& name, std::int64_t ranks, const std::string& device,
                     const std::string& output) {
  SettingsFile file = settings::read_settings_file(name, ranks);
  set_device(file, device, {read_file(name)});
  give(name, file, size_of(file), output);
}

bool import_settings_of_script(const script::ScriptRun& run, const std::string& script,
                               const megatron::ImportOptions& options, const std::string& output) {
  const std::vector<Found> all = find_in(run);
  if (all.empty()) return false;
  const auto& [call, settings] = pick(all, run, script, options.launch);
  const script::Launch launch = script::launch_of_call(run, call);
  const std::string where = fmt::format("{} line {}", script, launch.line);
  const auto text = megatron::text_of_launch(launch, settings.file);
  if (!text)
    fail_input("{}: {} names '{}', which defines the training, but the file does not exist", where,
               settings.option, settings.file);
  // accelerate's own file and options say how many; the launchers around it start one a node.
  script::LaunchSize size = script::launch_size(launch);
  const bool is_accelerate = settings.system == settings::System::accelerate;
  SettingsFile file = settings::read_settings_launch(settings, *text, launch.folder / settings.file,
                                                     is_accelerate ? 0 : size.ranks());
  if (is_accelerate) {
    const bool slurm = size.slurm;
    size = size_of(file);
    size.slurm = slurm;
  }
  std::vector<std::string> hints = megatron::device_hints(run, launch);
  hints.push_back(*text);
  set_device(file, options.device, hints);
  megatron::Import rest;
  megatron::note_run(run, launch, rest);
  auto& translation = file.translation;
  translation.lost.insert(translation.lost.end(), rest.lost.begin(), rest.lost.end());
  translation.notes.insert(translation.notes.end(), rest.notes.begin(), rest.notes.end());
  give(fmt::format("{}, {} {}", where, settings.option, settings.file), file, size, output);
  return true;
}

}  // namespace trireme::cli
