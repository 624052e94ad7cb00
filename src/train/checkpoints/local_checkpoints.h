// Frequent checkpoints on each node's local disk, in addition to those in the run's folder: fast to
// write, but lost with the node unless another node has a copy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/progress.h"
#include "checkpoint/writer.h"
#include "comm/transport.h"
#include "config/config.h"
#include "train/checkpoints/local_copies.h"
#include "train/checkpoints/local_parts.h"
#include "train/engine/engine.h"

namespace trireme {

// Every rank stores everything that it owns in its own folder, as a checkpoint that only a rank of
// the same layout can read. With checkpoint.local_copies, a rank on another node keeps a copy. All
// methods are collective, except where noted.
class LocalCheckpoints {
 public:
  // All outlive it.
  LocalCheckpoints(const Config& config, Engine& engine, Transport* transport, FileProgress* files);

  bool active() const { return config_.checkpoint.local_interval > 0; }
  // Call first. Ranks are on one node if they see the same folder: of other nodes' parts only those
  // that no rank needs may be removed, and a copy in the same folder would be lost with its
  // original.
  void find_nodes();
  // Why checkpoint.local_copies has no effect, or "". Not collective.
  std::string why_no_copies() const;

  // Finds the newest step that is intact for every rank, on the disk of any node, belongs to this
  // run and layout, and directly follows the checkpoint `shared` in the run's folder (-1: follows
  // none). Every rank's part is then in its own folder, verified.
  std::optional<std::int64_t> find(std::int64_t shared);
  // On rank 0: parts that find() chose and could not use, with reasons.
  const std::vector<std::string>& unusable() const { return unusable_; }
  // The run resumes from `step`: later saves belong to an abandoned branch.
  void forget_after(std::int64_t step);
  // Loads the local checkpoint of `step`, and starts to copy it, since the node that kept a copy
  // may be lost.
  CheckpointState load(std::int64_t step);
  // Saves, and starts to copy what it saved. `shared` as above. Requires that no copy is started.
  // Returns an error message or "": errors are not fatal, because the run does not depend on local
  // checkpoints.
  std::string save(CheckpointState state, std::int64_t shared);

  // Whether this rank is still copying. Not collective.
  bool copying() const { return copies_ && copies_->busy(); }
  // Waits for a copy; nullopt if none was started.
  std::optional<CopyReport> finish_copying();

 private:
  int rank() const { return transport_ ? transport_->place().rank : 0; }
  std::vector<std::string> disks();
  bool is_here(int owner) const;
  bool reads(int owner) const;
  std::vector<LocalFolder> readable_folders();
  const fs::path& run_folder();
  fs::path own_folder() { return local_folder(run_folder(), rank(), false); }
  std::vector<LocalPart> parts(std::int64_t shared);
  std::string fetch(const LocalStep& step);
  void start_copying(std::int64_t step);
  void keep_newest(const fs::path& folder);
  void remove_others();

  const Config& config_;
  Engine& engine_;
  Transport* transport_;
  FileProgress* files_;
  const std::vector<std::string> hosts_;  // by rank
  std::vector<int> holders_;              // of copies, by rank; empty without copies
  std::vector<int> here_;                 // ranks of this node
  std::vector<std::string> unusable_;
  fs::path run_folder_;
  std::string branch_;                 // random for each start, drawn at its first save
  std::optional<LocalCopies> copies_;  // once there is something to copy
  std::int64_t secured_ = -1;  // newest step saved on all ranks, and copied if there are copies
  bool removed_others_ = false;
};

}  // namespace trireme
