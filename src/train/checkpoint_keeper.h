// The checkpoints of a run: the one that it resumes from, and those that it saves.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/async_saver.h"
#include "checkpoint/progress.h"
#include "checkpoint/reader.h"
#include "comm/transport.h"
#include "config/config.h"
#include "train/console.h"
#include "train/engine.h"
#include "train/local_checkpoints.h"
#include "train/run_state.h"
#include "train/slices.h"

namespace trireme {

// All ranks together call what it offers, in the same order; the first one prints.
class CheckpointKeeper {
 public:
  // All but the options outlive it. `data_order`: of the training data, as a text. `saved` is
  // called whenever a checkpoint has been put into place: how long training waited for it, and how
  // long it took, in seconds.
  struct Job {
    const Config& config;
    Engine& engine;
    Transport* transport;  // null: a single rank
    Console& console;
    FileProgress* files;  // told what this rank does with files
    std::function<std::string()> data_order;
    std::function<std::string()> tuning;  // the record of algorithms, or ""
    std::function<void(double waited, double seconds)> saved;
  };
  explicit CheckpointKeeper(Job job)
      : job_(std::move(job)), local_(job_.config, job_.engine, job_.transport, job_.files) {}

  // Loads what the configuration says: the run's own newest checkpoint, else checkpoint.load.
  // Returns false where there is nothing to load: the engine is then as it was.
  bool load(RunState& run);

  // The record of algorithms of the checkpoint that load() resumed from, or "".
  const std::string& loaded_tuning() const { return loaded_tuning_; }

  // Loads the run's own checkpoint of an earlier step. Returns false where it is not there; nothing
  // has changed then.
  bool go_back(std::int64_t step, RunState& run);

  // Saves, unless that step is saved already; with checkpoint.async it only begins.
  void save(const RunState& run);
  // Saves to checkpoint.local_dir. What fails there is a warning.
  void save_locally(const RunState& run);
  // Whether this rank still writes.
  bool writing() const { return saver_ && !saver_->written(); }
  // Waits for a save that has begun. Throws what went wrong.
  void finish();
  // Step of the newest checkpoint that this process has loaded or saved; -1: none.
  std::int64_t saved_step() const { return saved_step_; }
  // The same of local ones, on rank 0.
  std::int64_t locally_saved_step() const { return locally_saved_step_; }

 private:
  bool leads() const { return rank() == 0; }
  int rank() const { return job_.transport ? job_.transport->place().rank : 0; }
  int ranks() const { return job_.transport ? job_.transport->place().size : 1; }

  bool load_newest(RunState& run);
  bool load_local(std::int64_t shared, RunState& run);
  void resume_from(const CheckpointState& saved, const std::string& from, RunState& run);
  CheckpointState state_of(const RunState& run) const;
  fs::path find_on_rank_0(const fs::path& path);
  fs::path newest_checkpoint();
  fs::path fall_back(fs::path path);
  void hand_on(std::optional<CheckpointReader>& reader, const fs::path& folder);
  void load_from(const fs::path& path, bool resume, RunState& run);
  void open(std::optional<CheckpointReader>& reader, const fs::path& path);
  void read_states(CheckpointReader& reader, const SliceOptions& wanted);
  void refuse_damage(const std::string& damage, const fs::path& path);
  void refuse_states_of_another_optimizer(const std::string& saved, const fs::path& folder);
  void refuse_counts_that_were_not_kept(const CheckpointReader& reader);
  void warn_of_another_model(const std::string& saved, const fs::path& folder);
  void note_save(const SaveReport& report);

  Job job_;
  std::optional<AsyncSaver> saver_;
  std::int64_t saved_step_ = -1, saving_step_ = -1, locally_saved_step_ = -1;
  double waited_ = 0;              // of training, for the save at hand
  std::int64_t shared_step_ = -1;  // of the newest one in the run's folder that has begun; -1: none
  std::string loaded_tuning_;
  LocalCheckpoints local_;
};

}  // namespace trireme
