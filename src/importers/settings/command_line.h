// How a command line starts another system's program with a settings file, and what its options say
// beside that file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "importers/settings/settings_file.h"

namespace trireme::settings {

// A command that names a settings file: "accelerate launch --config_file FILE ...", or torchtitan
// with "--job.config_file FILE".
struct SettingsLaunch {
  System system = System::torchtitan;
  std::string option;  // which names the file: "--job.config_file"
  std::string file;
  std::vector<std::string> options;  // the words that stand for keys of the file, and win over it

  bool operator==(const SettingsLaunch&) const = default;
};

// Nothing where the words are of another kind.
std::optional<SettingsLaunch> find_settings_launch(const std::vector<std::string>& words);

// The settings of a launch, whose file has the content `text`; what the words say wins over it.
// `path`: where the file lies.
SettingsFile read_settings_launch(const SettingsLaunch& launch, const std::string& text,
                                  const fs::path& path, std::int64_t ranks);

}  // namespace trireme::settings
