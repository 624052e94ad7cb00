// Cleans up after killed saves; renames come before removals, so that nothing needed is lost.
#include "checkpoint/tidy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <cerrno>

#include "base/error.h"
#include "checkpoint/layout.h"

namespace trireme {
namespace {

bool is_complete(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / manifest_file, ignored);
}

}  // namespace

void replace_folder(const fs::path& from, const fs::path& to, const fs::path& aside) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  if (errno == ENOTEMPTY || errno == EEXIST) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
    // No atomic exchange on this file system: moves the old folder to a name that find_checkpoint()
    // and tidy_checkpoints() recognize if this process is killed between the renames.
    fs::remove_all(aside);
    fs::rename(to, aside);
    fs::rename(from, to);
    return;
  }
  fail("cannot rename '{}' to '{}': {}", from.string(), to.string(),
       std::generic_category().message(errno));
}

std::string remove_checkpoint(const fs::path& folder, std::int64_t step, FileProgress* progress) {
  const fs::path from = folder / step_folder(step), partial = folder / partial_folder(step);
  std::error_code error;
  fs::rename(from, partial, error);
  if (error) return fmt::format("cannot remove '{}': {}", from.string(), error.message());
  return remove_folder(partial, progress);
}

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
