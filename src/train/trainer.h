// The main job: train a model from a configuration, from the beginning or from where a checkpoint
// left off.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "comm/transport.h"
#include "config/config.h"
#include "data/dataset.h"
#include "train/engine.h"
#include "train/metrics.h"

namespace trireme {

struct TrainSummary {
  std::int64_t steps = 0;           // done, in all processes so far
  double loss = 0;                  // of the last step
  double valid_loss = 0;            // of the last evaluation; 0 if there was none
  std::optional<double> test_loss;  // of the test split, when all steps are done
  double tokens_per_second = 0;     // of this process's steps
  double seconds = 0;               // spent in this process's steps
  // done: all steps. stopped: as planned, by train.exit_interval or exit_duration_minutes.
  // interrupted: by a signal. Either way everything is saved, and the same command resumes.
  enum class End { done, stopped, interrupted } end = End::done;
};

// "done", "stopped" or "interrupted", as in status.json.
std::string_view name_of(TrainSummary::End end);

// The position at which a learning rate is evaluated.
struct LrPlace {
  std::int64_t step = 0;     // done before
  std::int64_t samples = 0;  // of steps that were not skipped
  std::int64_t tokens = 0;   // read
  double configured = 0;     // what the configuration says here
};

struct TrainerOptions {
  // Every value has memory of its own and scratch is filled with NaN before each phase: slower, the
  // same bits. A difference is a bug of the memory planner.
  bool paranoid = false;
  // While the trainer lives, signals are noted and end the run at the next step (InterruptGuard).
  bool note_signals = true;

  // Flops per second that a device can do at most, for the log; 0: as run.peak_tflops says.
  double peak_flops = 0;
  // Which signal it was that a launcher passed on to this process as the given one; null: that one.
  std::function<int(int)> original_signal;

  // Overrides the configuration if set. The rate is the same on all ranks. Validation needs
  // train.eval_interval as well.
  std::function<double(const LrPlace&)> learning_rate;
  // Asked on the first rank in each step, with its number (from 1) and the seconds of the step
  // before: why the run ends after this one, saved, as with train.exit_duration_minutes; "": it
  // does not.
  std::function<std::string(std::int64_t step, double seconds)> reason_to_end;
  std::shared_ptr<const Dataset> train_data, valid_data;
};

class Trainer {
 public:
  // Checks the configuration, opens the data, plans the memory and prints both to `out` (not
  // owned). Everything that can be refused is refused here, before anything is allocated. With a
  // transport, which outlives the trainer, all of its ranks call this and run() together; the first
  // one prints.
  Trainer(Config config, std::FILE* out, const TrainerOptions& options = {},
          Transport* transport = nullptr);
  ~Trainer();

  // Writes the graphs of all segments with their plans: FOLDER/<segment>.txt and .dot.
  void dump_graphs(const std::string& folder) const;

  // Allocates, loads, trains, saves. Resumes after the steps of the calls below.
  TrainSummary run();

  // The parts of run(), for a loop of one's own; all ranks call each together. First begin(), which
  // allocates and loads; then any of the others; finish() at last, which waits for what is still
  // written. After an error the trainer can only be destroyed.
  void begin();
  // One step, with its lines in the log.
  StepResult train_step();
  double evaluate();  // the mean loss; refused (exit code 2) without data for it
  void save();
  // Why the run should end before its last step: a signal, train.exit_interval or
  // exit_duration_minutes. "": it should not. Asked once after each step.
  std::string reason_to_stop();
  TrainSummary finish();
  // Values of the caller's own for this step, in metrics.jsonl and TensorBoard; the first rank's
  // count.
  void log(std::span<const Metric> metrics);
  // Why a run that has begun ends without finish(), for its log and status.
  void note_failure(const std::exception& error);

  std::int64_t step() const;         // done
  std::int64_t total_steps() const;  // of the whole run
  std::int64_t consumed_samples() const;
  std::int64_t consumed_tokens() const;
  double learning_rate() const;  // of the last step
  std::int64_t planned_bytes() const;
  const Config& config() const;  // with what followed from the data

 private:
  template <class Body>
  auto noting_failure(const Body& body);

  struct Parts;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> silence_;  // where the other ranks print
  std::unique_ptr<Parts> parts_;
};

}  // namespace trireme
