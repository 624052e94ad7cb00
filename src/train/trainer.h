// Trains a model from a configuration, from scratch or resuming from a
// checkpoint.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "comm/transport.h"
#include "config/config.h"
#include "data/dataset.h"
#include "train/engine/engine.h"
#include "train/reports/metrics.h"

namespace trireme {

struct TrainSummary {
  std::int64_t steps = 0;           // completed, over all processes so far
  double loss = 0;                  // of the last step
  double valid_loss = 0;            // of the last evaluation; 0 if there was none
  std::optional<double> test_loss;  // of the test split, after the last step
  double tokens_per_second = 0;     // of this process's steps
  double seconds = 0;               // spent in this process's steps
  // done: all steps. stopped: as configured by train.exit_interval or exit_duration_minutes.
  // interrupted: by a signal. In each case everything is saved; the same command resumes.
  enum class End { done, stopped, interrupted } end = End::done;
};

// Returns "done", "stopped" or "interrupted", as in status.json.
std::string_view name_of(TrainSummary::End end);

// The position at which a learning rate is evaluated.
struct LrPlace {
  std::int64_t step = 0;     // completed before
  std::int64_t samples = 0;  // of steps that were not skipped
  std::int64_t tokens = 0;   // read
  double configured = 0;     // value from the configuration at this position
};

// A metric of an evaluation task: "hellaswag_acc".
struct TaskScore {
  std::string name;
  double value = 0;
};

struct TrainerOptions {
  // Gives every value separate memory and fills scratch with NaN before each phase: slower, but
  // bitwise identical. A difference indicates a bug of the memory planner.
  bool paranoid = false;
  // Signals during the trainer's lifetime end the run at the next step (InterruptGuard).
  bool note_signals = true;

  // Peak flops per second of a device, for the log; 0: taken from run.peak_tflops.
  double peak_flops = 0;
  // Maps a received signal to the one that a launcher originally got; null: identity.
  std::function<int(int)> original_signal;

  // Overrides the configured learning rate if set; must return the same on all ranks. Validation
  // also needs train.eval_interval.
  std::function<double(const LrPlace&)> learning_rate;
  // Called on rank 0 in each step, with its number (from 1) and the duration of the previous step:
  // returns the reason to end the run after this step, with a save, as with
  // train.exit_duration_minutes; "": continue.
  std::function<std::string(std::int64_t step, double seconds)> reason_to_end;
  std::shared_ptr<const Dataset> train_data, valid_data;
  // Evaluates a checkpoint on train.eval_tasks, which needs it; called on rank 0. nullopt: a signal
  // asked the run to end.
  std::function<std::optional<std::vector<TaskScore>>(const fs::path& checkpoint)> evaluate_tasks;
};

class Trainer {
 public:
  // Checks the configuration, opens the data, plans the memory and prints both to `out` (not
  // owned). Invalid input is rejected here, before anything is allocated. With a transport,
  // which must outlive the trainer, this and run() are collective over its ranks; rank 0
  // prints.
  Trainer(Config config, std::FILE* out, const TrainerOptions& options = {},
          Transport* transport = nullptr);
  ~Trainer();

  // Writes the graphs of all segments with their plans: FOLDER/<segment>.txt and .dot.
  void dump_graphs(const std::string& folder) const;

  // Allocates, loads, trains, saves. Continues after any steps made by the calls below.
  TrainSummary run();

  // The phases of run(), for custom training loops; all are collective. First begin(), which
  // allocates and loads; then any of the others; finally finish(), which waits for pending writes.
  // After an error the trainer can only be destroyed.
  void begin();
  // Runs one step and logs it.
  StepResult train_step();
  double evaluate();  // the mean loss; refused (exit code 2) without data for it
  void save();
  // Returns why the run should end before its last step: a signal, train.exit_interval or
  // exit_duration_minutes; "": it should not. Call once after each step.
  std::string reason_to_stop();
  TrainSummary finish();
  // Logs the caller's own values for this step in metrics.jsonl and TensorBoard; only rank 0's are
  // used.
  void log(std::span<const Metric> metrics);
  // Records why a run ends after begin() without finish(), in its log and status.
  void note_failure(const std::exception& error);

  std::int64_t step() const;         // completed
  std::int64_t total_steps() const;  // of the whole run
  std::int64_t consumed_samples() const;
  std::int64_t consumed_tokens() const;
  double learning_rate() const;  // of the last step
  std::int64_t planned_bytes() const;
  const Config& config() const;  // with values derived from the data

 private:
  template <class Body>
  auto noting_failure(const Body& body);

  struct Parts;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> silence_;  // where ranks other than 0 print
  std::unique_ptr<Parts> parts_;
};

}  // namespace trireme
