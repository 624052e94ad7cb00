// Finds a configuration file, and refuses what cannot be one.
#include "config/config_file.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>

#include "base/beside_program.h"
#include "base/error.h"
#include "base/file.h"
#include "config/fields.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

// The recipes that are installed with the program have the names that they have in a source tree.
fs::path given_or_installed(const std::string& path) {
  std::error_code ignored;
  if (!path.starts_with("recipes/") || fs::exists(path, ignored)) return path;
  const fs::path installed = find_beside_program(path, {});
  return installed.empty() ? fs::path(path) : installed;
}

[[noreturn]] void refuse_folder(const fs::path& folder) {
  std::error_code ignored;
  const fs::path of_run = folder / "config.toml";
  fail_input(
      "'{}' is a folder, and a configuration file (TOML) is expected{}", folder.string(),
      fs::exists(of_run, ignored) ? fmt::format("; that of the run is '{}'", of_run.string()) : "");
}

}  // namespace

std::string read_config_file(const std::string& path) {
  const fs::path file = given_or_installed(path);
  std::error_code error;
  if (fs::is_directory(file, error)) refuse_folder(file);
  const std::uint64_t size = fs::file_size(file, error);
  if (!error && size > largest_config_file)
    fail_input("'{}' has {} bytes, too many for a configuration file (TOML)", path, size);
  return read_file(file, largest_config_file);
}

}  // namespace trireme
