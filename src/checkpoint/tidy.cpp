// Cleans up after killed saves; renames come before removals, so that nothing needed is lost.
#include "checkpoint/tidy.h"

#include <fmt/format.h>

#include "checkpoint/layout.h"

namespace trireme {
namespace {

bool is_complete(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / manifest_file, ignored);
}

}  // namespace

std::string remove_folder(const fs::path& folder, FileProgress* progress) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code failed;
    fs::remove_all(it->path(), failed);
    if (failed) return fmt::format("cannot remove '{}': {}", it->path().string(), failed.message());
    if (progress) progress->moved(0);
  }
  fs::remove_all(folder, error);
  if (error) return fmt::format("cannot remove '{}': {}", folder.string(), error.message());
  return "";
}

std::string repair_latest(const fs::path& checkpoint) {
  const fs::path folder = checkpoint.parent_path(), latest = folder / latest_file;
  const std::string name = checkpoint.filename().string();
  std::error_code ignored;
  fs::remove(latest.string() + ".tmp", ignored);
  if (!step_of(name) || !is_complete(checkpoint)) return "";
  try {
    if (read_latest(folder) == name) return "";
    write_file_durably(latest, name + "\n");
    return fmt::format("'{}' now names {}", latest.string(), name);
  } catch (const std::exception& error) {
    return fmt::format("warning: '{}' does not name {}: {}", latest.string(), name, error.what());
  }
}

std::vector<std::string> tidy_checkpoints(const fs::path& folder, FileProgress* progress) {
  std::vector<std::string> lines;
  for (const fs::path& path : partial_folders(folder)) {
    const auto step = replaced_step_of(path.filename().string());
    if (!step) continue;
    const fs::path place = folder / step_folder(*step);
    if (fs::exists(place) || !is_complete(path)) continue;
    std::error_code error;
    fs::rename(path, place, error);
    lines.push_back(error ? fmt::format("warning: cannot rename '{}' to '{}': {}", path.string(),
                                        place.string(), error.message())
                          : fmt::format("restored {}, which a save that was killed had put aside",
                                        place.string()));
    if (error) return lines;  // leave everything in place
  }
  for (const fs::path& path : partial_folders(folder)) {
    const std::string failure = remove_folder(path, progress);
    lines.push_back(failure.empty() ? fmt::format("removed {}, which a save that was killed left",
                                                  path.string())
                                    : "warning: " + failure);
  }
  return lines;
}

}  // namespace trireme
