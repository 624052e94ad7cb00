// Loads and saves the checkpoints of a run.
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
#include "train/checkpoints/local_checkpoints.h"
#include "train/checkpoints/run_state.h"
#include "train/checkpoints/slices.h"
#include "train/engine/engine.h"
#include "train/reports/console.h"

namespace trireme {

// Loading, saving and finish() are collective, in the same order on all ranks; rank 0 prints.
class CheckpointKeeper {
 public:
  // Everything that it refers to must outlive the keeper. `data_order`: a text description of the
  // training data's order. `saved` is called when a checkpoint is complete, with the seconds that
  // training was blocked and the total seconds of the save.
  struct Job {
    const Config& config;
    Engine& engine;
    Transport* transport;  // null: a single rank
    Console& console;
    FileProgress* files;  // notified of this rank's file operations
    std::function<std::string()> data_order;
    std::function<std::string()> tuning;  // the tuning record, or ""
    std::function<void(double waited, double seconds)> saved;
  };
  explicit CheckpointKeeper(Job job)
      : job_(std::move(job)), local_(job_.config, job_.engine, job_.transport, job_.files) {}

  // Loads the run's own newest checkpoint, otherwise checkpoint.load. Returns false if there is no
  // checkpoint: the engine is unchanged.
  bool load(RunState& run);

  // The tuning record of the checkpoint that load() resumed from, or "".
  const std::string& loaded_tuning() const { return loaded_tuning_; }

  // Loads the run's own checkpoint of an earlier step. Returns false, with nothing changed, if it
  // does not exist.
  bool go_back(std::int64_t step, RunState& run);

  // Saves, unless that step is already saved; with checkpoint.async only starts the save.
  void save(const RunState& run);
  // Saves to checkpoint.local_dir. Failures are only warnings.
  void save_locally(const RunState& run);
  // Whether this rank is still writing or copying.
  bool writing() const { return (saver_ && !saver_->written()) || local_.copying(); }
  // Waits for a save in progress. Throws its error.
  void finish();
  // Also waits for copies of a local checkpoint. Their failures are only warnings.
  void settle();
  // Step of the newest checkpoint that this process has loaded or saved; -1: none.
  std::int64_t saved_step() const { return saved_step_; }
  // The same for local checkpoints, on rank 0.
  std::int64_t locally_saved_step() const { return locally_saved_step_; }
  // The newest local checkpoint that a lost node does not take along, on rank 0; -1: none.
  std::int64_t locally_copied_step() const { return locally_copied_step_; }

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
  void leave_no_weights_out(const CheckpointReader& reader, bool resume);
  void note_other_numerics(const std::string& saved, const std::string& from);
  void warn_of_another_model(const std::string& saved, const fs::path& folder);
  void note_save(const SaveReport& report);
  bool finish_copying();

  Job job_;
  std::optional<AsyncSaver> saver_;
  std::int64_t saved_step_ = -1, saving_step_ = -1;
  std::int64_t locally_saved_step_ = -1, locally_copied_step_ = -1;
  bool noted_wait_ = false;
  double waited_ = 0;              // seconds that training was blocked by the current save
  std::int64_t shared_step_ = -1;  // newest save started in the run's folder; -1: none
  std::string loaded_tuning_;
  LocalCheckpoints local_;
};

}  // namespace trireme
