// The trainer: model, data, optimizer and checkpoints of one run.
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

// Position in the run for which a learning rate is requested.
struct ScheduleInput {
  std::int64_t step = 0;     // number of steps done before this one
  std::int64_t steps = 0;    // of the whole run
  std::int64_t samples = 0;  // of earlier steps that changed the weights
  std::int64_t tokens = 0;   // read in earlier steps
  double configured = 0;     // the rate by [optimizer]
};
// A pure function, the same on all processes; it returns 0 or more (else bad_input).
using LearningRate = std::function<double(const ScheduleInput&)>;

// Receives the printed lines, without line ends, on the first process. Exceptions that it throws
// are ignored.
using Logger = std::function<void(std::string_view line)>;

struct TrainerOptions {
  std::shared_ptr<const Dataset> train_data{};  // null: as configured by [data]
  std::shared_ptr<const Dataset> valid_data{};  // with train_data; for train.eval_interval above 0
  LearningRate learning_rate{};                 // null: as configured by [optimizer]
  Logger log{};                                 // null: standard output
  // While the trainer exists, SIGINT, SIGTERM, SIGHUP and SIGUSR1 do not end the process, but make
  // should_stop() true. Only one trainer at a time may use this.
  bool note_signals = false;
};

// Result of an optimizer step; the same on all processes.
struct StepResult {
  std::int64_t step = 0;  // number of the step, from 1
  double loss = 0;        // mean over the predicted tokens of the global batch
  double grad_norm = 0;   // before clipping
  double learning_rate = 0;
  bool finite = true;  // false: fp16 gradients overflowed and the step was skipped
};

enum class RunEnd {
  done,         // all steps are done
  stopped,      // by train.exit_interval, train.exit_duration_minutes or the program
  interrupted,  // by a signal
};

struct Summary {
  std::int64_t steps = 0;        // done, including those before a resume
  double loss = 0;               // of the last step
  double valid_loss = 0;         // of the last evaluation; 0 if there was none
  double tokens_per_second = 0;  // of this trainer's steps
  double seconds = 0;            // spent in this trainer's steps
  RunEnd end = RunEnd::done;
};

// Trains like `trireme train`, step by step: it writes the same files to run.dir, and either of the
// two resumes from the newest checkpoint that the other wrote. Calls are collective: all processes
// of the job make the same calls in the same order.
//
// Errors: bad_input for a wrong configuration or wrong data, failed for everything else. After
// train_step() has thrown, the trainer can only be destroyed; its checkpoints are unaffected, and a
// new trainer can be created. A job can have several trainers one after another, also with the same
// run.dir; trainers that exist at the same time need different folders.
class TRIREME_API Trainer {
 public:
  // Checks the configuration, plans and allocates memory, opens the data, and resumes from a
  // checkpoint if there is one. The job must outlive the trainer.
  Trainer(Job& job, const Config& config, TrainerOptions options = {});
  // If neither finish() nor run() completed, status.json records the run as failed.
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  std::int64_t step() const;   // number of steps done
  std::int64_t steps() const;  // of the whole run, by train.iters, samples or tokens
  bool done() const { return step() >= steps(); }
  std::int64_t consumed_samples() const;
  std::int64_t consumed_tokens() const;
  std::int64_t planned_bytes() const;  // memory of this process
  Config config() const;               // with values that follow from the tokenizer

  // Runs one step over the next train.global_batch_size samples. bad_input after the last step.
  StepResult train_step();
  // Returns the mean loss over train.eval_iters batches of the validation data.
  double evaluate();
  // Writes the program's metrics of the last step to metrics.jsonl and, with log.tensorboard, to
  // TensorBoard. Values of the first process are used.
  void log(const std::vector<std::pair<std::string, double>>& metrics);
  // Saves a checkpoint as configured by [checkpoint]; with checkpoint.async, in the background.
  void save();
  // Whether a signal, train.exit_interval or train.exit_duration_minutes requests a stop. Call it
  // after each step; if it returns true, save and leave the loop.
  bool should_stop();
  // Waits for writes in progress and records in run.dir how the run ended.
  Summary finish();

  // Runs all remaining steps, with evaluations and checkpoints at their intervals.
  Summary run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::v1
