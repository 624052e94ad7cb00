// Internal parts of the trainer, shared by its source files only.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <optional>

#include "base/portable_math.h"
#include "data/loader.h"
#include "train/checkpoints/checkpoint_keeper.h"
#include "train/checkpoints/exports.h"
#include "train/engine/active_trace.h"
#include "train/engine/engine.h"
#include "train/engine/tuning.h"
#include "train/reports/console.h"
#include "train/reports/progress.h"
#include "train/run/run_folder.h"
#include "train/schedule/batch_schedule.h"
#include "train/schedule/curriculum.h"
#include "train/schedule/lr_schedule.h"
#include "train/trainer.h"
#include "train/watch/corruption_guard.h"
#include "train/watch/interrupt.h"
#include "train/watch/slow_ranks.h"

namespace trireme {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Reports how long each part of the start-up took, at LogLevel::debug.
class StartUp {
 public:
  // `console` must outlive it. The first part begins now.
  explicit StartUp(Console& console) : console_(console) {}
  // Reports the part that has ended: everything since the last call.
  void done(const std::string& what) {
    const Clock::time_point now = Clock::now();
    console_.debug(fmt::format("start-up: {} ({:.3f} s)", what,
                               std::chrono::duration<double>(now - last_).count()));
    last_ = now;
  }

 private:
  Console& console_;
  Clock::time_point last_ = Clock::now();
};

// Inherits the run's position and counters.
struct Trainer::Parts : RunState {
  Parts(Config c, std::FILE* out, const TrainerOptions& options, Transport* transport);

  TrainSummary run();
  TrainSummary finish();
  // Records why the run failed; the error itself propagates.
  void note_failure(const std::exception& error);

  // --- the run's parts ---
  void open_data();
  void open_own_data();
  void open_data_in_turn();
  // Results of opening the data on rank 0: success, the sample order, and whether there are
  // validation samples; or whether a signal ended other work.
  struct Opened {
    std::int64_t ready = 0, failed = 0, order = 0, validates = 0, interrupted = 0;
  };
  // Rank 0 opens the data, or does other work, without waiting for other ranks; `describe` stores
  // the results. Its exception is stored in `failure` on that rank.
  Opened open_first(const std::function<void()>& open, const std::function<void(Opened&)>& describe,
                    std::exception_ptr& failure, const char* what = "opening the data");
  // Returns null without test data, or if rank 0 fails to open it; `problem` is then a sentence.
  std::shared_ptr<const Dataset> open_test_data(std::string& problem);
  bool reads_data() const;
  void print_plan();
  void check_memory() const;
  void check_ranks_agree();
  void check_graphs_agree();
  void begin();
  void agree_on_algorithms();
  void open_loaders();
  LoaderConfig loading() const;
  // `planned`: scheduled, not only because the run ends here.
  void save(bool planned);
  void save_locally();

  // Number of tokens read by the run after this many samples.
  std::int64_t tokens_after(std::int64_t samples) const;
  // Steps of the full run by train.iters or samples, from its current position; and as limited by
  // train.tokens.
  std::int64_t steps_in_order() const;
  std::int64_t steps_to_take() const;
  // Samples of all steps of the run.
  std::int64_t samples_to_consume() const;
  void adjust_to_batch();

  // --- one step ---
  StepInput step_input();
  double learning_rate() const;
  // Returns this rank's micro-batch k of the current step.
  const Batch* micro_batch(std::int64_t k);
  void take_step();  // and reports it
  void train_one_step();
  [[noreturn]] void refuse_not_finite(const StepInput& input, const MicroBatches& next,
                                      std::int64_t samples);
  void after_spike();
  // Throws if values that ranks must share differ.
  void check_for_corruption();
  [[noreturn]] void refuse_corruption(const CorruptionGuard::Finding& found);
  void after_step();
  void report();
  // Reports the step time before the first log interval has ended.
  void report_first_step();
  std::int64_t next_report() const;  // the step of the next line
  void name_slow_ranks();
  void log(std::span<const Metric> metrics);
  void evaluate();
  bool tasks_are_due() const;
  fs::path own_checkpoint() const;  // of this step, in the run's folder
  // Evaluates the checkpoint of this step on train.eval_tasks, unless a signal ends the run.
  void evaluate_tasks();
  // The same for the checkpoint that was loaded, if the start that saved it did not get to it.
  void complete_tasks();
  void test();
  bool has_test() const;
  // Samples of one evaluation, and its loss from that sample on.
  std::int64_t evaluation_samples() const;
  LossSum evaluate_on(Loader& data, std::int64_t from);
  bool wants_to_stop();
  struct Stop {
    TrainSummary::End end;
    std::string why;
  };
  std::optional<Stop> reason_to_stop();
  TrainSummary summary();
  std::string nothing_to_do() const;
  void trace(bool ended);
  void write_status(const std::string& state, const std::string& reason, bool durable = true);

  bool leads() const { return rank.rank == 0; }  // prints, and writes all but checkpoints

  const TrainerOptions options;
  std::optional<InterruptGuard> guard;  // declared early: opening the data may take long
  Config config;
  const math::Use numerics{config.parallel.numerics == Numerics::portable};
  Transport* transport;  // null: a single rank
  RankOf rank;
  // File activity of this rank, for ranks that wait for it; shared with the transport.
  const std::shared_ptr<FileProgress> files = std::make_shared<FileProgress>();
  Console console;
  StartUp start_up{console};
  RunFolder folder;
  std::int64_t eod_id;
  BatchSchedule batches;
  Curriculum curriculum;
  LrSchedule lr_schedule;
  std::int64_t ordered_steps;  // by iters or samples; determines the order of the data
  std::int64_t total_steps;    // fewer if train.tokens ends the run earlier
  std::shared_ptr<const Dataset> train_data, valid_data;
  Engine engine;
  Tuning tuning;
  CorruptionGuard corruption;
  CheckpointKeeper checkpoints;
  Exports exports;  // used on rank 0
  const std::span<const Loss> losses;

  std::optional<Loader> loader, valid_loader;
  std::optional<Progress> progress;
  std::optional<ActiveTrace> recording;
  std::deque<Batch> step_batches;  // deque: elements must not move

  // Accumulated since the last report.
  struct Interval {
    LossSum loss;
    double seconds = 0, tokens = 0, samples = 0;
    double own_seconds = 0;  // excluding waits for other ranks
    std::int64_t steps = 0, skipped = 0;
  } interval;
  SlowRanks slow_ranks;
  StepResult last;
  std::optional<Stop> stop;          // why the run ends early
  std::string ended_by_caller;       // options.reason_to_end
  std::int64_t rolled_back_to = -1;  // in the last step; -1: no rollback
  double last_lr = 0, last_seconds = 0, last_tokens = 0, last_waited = 0;
  std::int64_t last_samples = 0;
  std::optional<double> test_loss;
  double total_seconds = 0, total_tokens = 0;
  Clock::time_point started = Clock::now();
  bool failed = false;
};

}  // namespace trireme
