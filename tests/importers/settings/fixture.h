// Settings files written, read, and what became of them.
#pragma once

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "importers/settings/settings_file.h"

namespace trireme::settings {

class Settings : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  SettingsFile read(const std::string& name, const std::string& text,
                    std::int64_t ranks = 0) const {
    write(name, text);
    return read_settings_file(folder_ / name, ranks);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  std::string refusal(const std::string& name, const std::string& text,
                      std::int64_t ranks = 0) const {
    try {
      read(name, text, ranks);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "read";
  }
  static Config config(const SettingsFile& file) { return megatron::to_config(file.translation); }
  static std::string lost(const SettingsFile& file) {
    std::string text;
    for (const auto& note : file.translation.lost) text += note.flag + " " + note.text + "\n";
    return text;
  }

  static std::string noted(const SettingsFile& file) {
    std::string text;
    for (const auto& note : file.translation.notes) text += note.flag + " " + note.text + "\n";
    return text;
  }
  // The value of a setting as TOML, or "".
  static std::string value(const SettingsFile& file, const std::string& key) {
    for (const auto& setting : file.translation.settings)
      if (setting.key == key) return setting.value;
    return "";
  }

  fs::path folder_ = fs::temp_directory_path() / ("trireme-settings-" + std::to_string(::getpid()));
};

}  // namespace trireme::settings
