// Checkpoint size by the optimizer's rules, and free space by the file system.
#include "train/checkpoints/disk_space.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "checkpoint/layout.h"
#include "config/optimizers.h"
#include "model/transformer.h"
#include "runtime/memory.h"

namespace trireme {
namespace {

// A checkpoint contains master weights and moments in the types in which steps keep them.
double bytes_of_parameter(const Config& config) {
  const double weight = config.run.precision == Precision::fp64 ? 8 : 4;
  const double moment = config.optimizer.moment_dtype == StateType::bf16 ? 2 : weight;
  return weight + moment * entry_of(config.optimizer.name).moments;
}

// Returns the folder or, if it does not exist, its nearest existing ancestor.
fs::path existing_folder(fs::path folder) {
  std::error_code error;
  folder = fs::absolute(folder, error);
  while (!fs::is_directory(folder, error) && folder.has_parent_path() &&
         folder != folder.parent_path())
    folder = folder.parent_path();
  return folder;
}

}  // namespace

DiskSpace disk_space(const Config& config) {
  DiskSpace space;
  space.checkpoint = static_cast<std::int64_t>(static_cast<double>(parameter_count(config.model)) *
                                               bytes_of_parameter(config));
  const fs::path run = config.run.dir;
  if (config.checkpoint.interval > 0 && config.checkpoint.keep > 0) {
    const auto there = static_cast<std::int64_t>(saved_steps(run / "checkpoints").size());
    // An old checkpoint is removed only after the new one is complete.
    space.more = std::max<std::int64_t>(1, config.checkpoint.keep + 1 - there);
  }
  std::error_code error;
  const fs::space_info info = fs::space(existing_folder(run), error);
  space.free = error
                   ? INT64_MAX
                   : static_cast<std::int64_t>(std::min<std::uintmax_t>(info.available, INT64_MAX));
  return space;
}

std::string check_disk(const DiskSpace& space, const Config& config) {
  if (!space.has_room_for_one())
    fail_input(
        "a checkpoint of this model needs about {}, but the disk of run.dir = {:?} has only {} "
        "free: free some space, or use a folder on another disk",
        bytes_to_text(space.checkpoint), config.run.dir, bytes_to_text(space.free));
  if (space.has_room()) return "";
  return fmt::format(
      "the disk of run.dir has only {} free, but {} of about {} each will be written before the "
      "first is removed: decrease checkpoint.keep, or free some space",
      bytes_to_text(space.free), counted(space.more, "checkpoint"),
      bytes_to_text(space.checkpoint));
}

}  // namespace trireme
