// Training: the model, the data, the optimizer and the checkpoints of one run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <trireme/config.h>
#include <trireme/data.h>
#include <trireme/export.h>
#include <trireme/job.h>

namespace trireme::v1 {

// Where a learning rate is asked for.
struct ScheduleInput {
  std::int64_t step = 0;     // done before this one
  std::int64_t steps = 0;    // of the whole run
  std::int64_t samples = 0;  // of steps before that changed the weights
  std::int64_t tokens = 0;   // read before
  double configured = 0;     // what [optimizer] says
};
// A pure function, the same on all processes; its results are 0 or more.
using LearningRate = std::function<double(const ScheduleInput&)>;

// Takes what is printed, line by line and without line ends, in the first process. What it throws
// is lost.
using Logger = std::function<void(std::string_view line)>;

struct TrainerOptions {
  std::shared_ptr<const Dataset> train_data{};  // null: [data] says
  std::shared_ptr<const Dataset> valid_data{};  // with train_data; for train.eval_interval above 0
  LearningRate learning_rate{};                 // null: [optimizer] says
  Logger log{};                                 // null: standard output
  // While the trainer lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 do not end the process, but make
  // should_stop() true. One trainer at a time.
  bool note_signals = false;
};

// What a step did; the same on all processes.
struct StepResult {
  std::int64_t step = 0;  // its number, from 1
  double loss = 0;        // mean over the predicted tokens of the global batch
  double grad_norm = 0;   // before clipping
  double learning_rate = 0;
  bool finite = true;  // false: fp16 gradients overflowed, and the weights stayed as they were
};

enum class RunEnd {
  done,         // all steps
  stopped,      // as planned: train.exit_interval, exit_duration_minutes, or by the program
  interrupted,  // by a signal
};

struct Summary {
  std::int64_t steps = 0;        // done, in all processes so far
  double loss = 0;               // of the last step
  double valid_loss = 0;         // of the last evaluation; 0 without one
  double tokens_per_second = 0;  // of this trainer's steps
  double seconds = 0;            // spent in them
  RunEnd end = RunEnd::done;
};

// Does what `trireme train` does, step by step: run.dir gets the same files, and the same
// configuration resumes from its newest checkpoint, with either of the two. All processes of the
// job make the same calls in the same order.
//
// Errors: bad_input for what the configuration or the data get wrong, failed for the rest. After
// one that train_step() threw, the trainer can only be destroyed; what it saved is untouched, and
// another one can be made. Trainers may follow one another on a job, also in one run.dir; two at a
// time need two folders.
class TRIREME_API Trainer {
 public:
  // Checks everything, plans the memory, allocates it, opens the data, and resumes from a
  // checkpoint where there is one. The job outlives the trainer.
  Trainer(Job& job, const Config& config, TrainerOptions options = {});
  // Without finish() before, the run counts as failed in its status.json.
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  std::int64_t step() const;   // done
  std::int64_t steps() const;  // of the whole run, by train.iters, samples or tokens
  bool done() const { return step() >= steps(); }
  std::int64_t consumed_samples() const;
  std::int64_t consumed_tokens() const;
  std::int64_t planned_bytes() const;  // of memory on this process
  Config config() const;               // with what followed from the tokenizer

  // One step over the next train.global_batch_size samples. Refused after the last one.
  StepResult train_step();
  // The mean loss over train.eval_iters batches of the validation data.
  double evaluate();
  // Values of the program's own, for the step last done: in metrics.jsonl, and in TensorBoard with
  // log.tensorboard. Those of the first process count.
  void log(const std::vector<std::pair<std::string, double>>& metrics);
  // A checkpoint of this step, as [checkpoint] says; with checkpoint.async it only begins here.
  void save();
  // Whether a signal, train.exit_interval or exit_duration_minutes ask for an end now. To be asked
  // after each step; the program then saves and leaves its loop.
  bool should_stop();
  // Waits for what is still written, and says in run.dir how the run ended.
  Summary finish();

  // All of it, as `trireme train` does: steps, evaluations and checkpoints at their intervals.
  Summary run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::v1
