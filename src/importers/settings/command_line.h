// Finds command lines that start another system's program with a settings file, and options that
// override it.
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
  std::string option;  // option that names the file: "--job.config_file"
  std::string file;
  std::vector<std::string> options;  // options that override keys of the file

  bool operator==(const SettingsLaunch&) const = default;
};

// Returns nullopt for any other command.
std::optional<SettingsLaunch> find_settings_launch(const std::vector<std::string>& words);

// Settings of a launch, given the file's content `text`; options override it. `path`: location of
// the file.
SettingsFile read_settings_launch(const SettingsLaunch& launch, const std::string& text,
                                  const fs::path& path, std::int64_t ranks);

}  // namespace trireme::settings
