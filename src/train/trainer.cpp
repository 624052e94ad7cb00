// The training loop of a run, and how it ends.
#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "comm/suspects.h"
#include "comm/wait_time.h"
#include "train/run/ranks.h"
#include "train/run/setup.h"
#include "train/trainer_parts.h"

namespace trireme {

namespace {

std::string signal_text(int signal) {
  if (signal == SIGINT) return "interrupted by Ctrl-C";
  return fmt::format("signal {} ({})", signal, strsignal(signal));
}

}  // namespace

StepInput Trainer::Parts::step_input() {
  StepInput input;
  input.step = static_cast<std::uint64_t>(step);
  input.micro_batches = batches.micro_batches(consumed_samples);
  input.lr = last_lr = learning_rate();
  input.clip_grad = config.optimizer.clip_grad;
  input.loss_scale = loss_scale.scale();
  if (spikes.active())
    input.takes = [this](const StepResult& r) { return !spikes.is_spike(r.loss.mean()); };
  input.stop = [this] { return wants_to_stop(); };
  input.saving = [this] { return checkpoints.writing(); };
  return input;
}

double Trainer::Parts::learning_rate() const {
  const double configured = lr_schedule(scheduled_samples, consumed_tokens);
  if (!options.learning_rate) return configured;
  const double own = options.learning_rate({step, scheduled_samples, consumed_tokens, configured});
  if (!std::isfinite(own) || own < 0)
    fail_input("the learning rate given for step {} is {}: expected 0 or more", step + 1, own);
  return own;
}

const Batch* Trainer::Parts::micro_batch(std::int64_t k) {
  while (static_cast<std::int64_t>(step_batches.size()) <= k)
    cut(step_batches.emplace_back(loader->next()), engine.length());
  return &step_batches[static_cast<std::size_t>(k)];
}

void Trainer::Parts::take_step() {
  train_one_step();
  after_step();
  if (leads()) folder.guard_without_lock([this] { write_status("running", "", false); });
  const std::int64_t every = config.train.log_interval;
  const bool reports = step == total_steps || (every > 0 && step % every == 0);
  if (reports)
    report();
  else if (interval.steps == 1 && total_seconds == last_seconds)
    report_first_step();
  const std::int64_t guard_every = config.train.guard_interval;
  if (guard_every > 0 && step % guard_every == 0) check_for_corruption();
}

void Trainer::Parts::train_one_step() {
  const Clock::time_point begin = Clock::now();
  const double waited_before = seconds_waited();
  engine.set_length(curriculum.length(step));
  const StepInput input = step_input();
  const MicroBatches next = [this](std::int64_t k) { return micro_batch(k); };
  step_batches.clear();
  trace(false);
  const ProfilerRange range(ProfilerRange::Level::step, "step", step);
  last = engine.train_step(input, next);
  const std::int64_t samples = batches.batch_size(consumed_samples);
  loss_scale.update(!last.finite);
  // Another loss scale may help; otherwise a non-finite step is handled like any spike.
  const bool overflowed = !last.finite && loss_scale.is_dynamic() && !loss_scale.is_stuck();
  const bool is_spike = !last.taken && !overflowed && spikes.active();
  if (!last.finite && !overflowed && !is_spike && config.train.check_nan)
    refuse_not_finite(input, next, samples);
  if (last.taken) {
    scheduled_samples += samples;
    spikes.add(last.loss.mean());
  } else {
    ++skipped;
    ++interval.skipped;
  }
  if (!last.saving) checkpoints.settle();
  exports.poll();
  ++step;
  consumed_samples += samples;
  consumed_tokens += samples * engine.length();
  rolled_back_to = -1;
  if (is_spike) after_spike();

  last_seconds = seconds_since(begin);
  last_tokens = static_cast<double>(samples * engine.length());
  interval.seconds += last_seconds;
  last_samples = samples;
  last_waited = seconds_waited() - waited_before;
  interval.own_seconds += last_seconds - last_waited;
  interval.tokens += last_tokens;
  interval.samples += static_cast<double>(samples);
  ++interval.steps;
  if (std::isfinite(last.loss.words().sum)) interval.loss += last.loss;
  total_seconds += last_seconds;
  total_tokens += last_tokens;
}

void Trainer::Parts::refuse_not_finite(const StepInput& input, const MicroBatches& next,
                                       std::int64_t samples) {
  checkpoints.finish();
  fail(
      "step {}: loss or gradients are not finite{}; first in {}. The last checkpoint in '{}' is "
      "untouched: decrease optimizer.lr, or check the data of samples {} to {}",
      step + 1,
      loss_scale.is_stuck()
          ? fmt::format(", for the {}th time in a row at optimizer.min_loss_scale = {}",
                        LossScale::patience, loss_scale.scale())
          : "",
      engine.explain_not_finite(input, next), config.run.dir, consumed_samples,
      consumed_samples + samples - 1);
}

// Counts the step as done and its data as consumed: the result is the same whether the run came
// here directly or was killed and recomputed these steps.
void Trainer::Parts::after_spike() {
  checkpoints.finish();
  const double loss = last.loss.mean();
  // Gradients may be non-finite even if the loss is finite.
  const double judged = last.finite ? loss : std::numeric_limits<double>::quiet_NaN();
  const std::string why = fmt::format("step {}: {}", step, spikes.text(judged));
  spikes.add_spike(judged);
  const RunState now = *this;
  const std::optional<std::int64_t> back = spikes.rollback_step(step);
  if (back && checkpoints.go_back(*back, *this)) {
    rolled_back_to = *back;
    step = now.step;
    skipped += step - rolled_back_to;
    consumed_samples = now.consumed_samples;
    consumed_tokens = now.consumed_tokens;
    valid_loss = now.valid_loss;
    save_due = now.save_due;
    tasks_due = now.tasks_due;
    guarded = now.guarded;
    const LossSpikes then = std::exchange(spikes, now.spikes);
    spikes.rolled_back(then, rolled_back_to);
  }
  const std::string what = rolled_back_to >= 0
                               ? fmt::format(
                                     "rolling back to the weights of step {} and continuing with "
                                     "the data that follows: steps {} to {} count as skipped",
                                     rolled_back_to, rolled_back_to + 1, step)
                               : "its update is skipped";
  const char* const without = config.train.spike_policy == SpikePolicy::back && rolled_back_to < 0
                                  ? "; no checkpoint is old enough to roll back to"
                                  : "";
  console.warn_now(fmt::format("{}; {}{}", why, what, without));
  if (!leads()) return;
  std::vector<Metric> event = {
      {"event", rolled_back_to >= 0 ? "went back" : "skipped"}, {"loss", loss}, {"why", why}};
  if (rolled_back_to >= 0) event.push_back({"to_step", rolled_back_to});
  folder.write_event(step, event);
}

void Trainer::Parts::check_for_corruption() {
  if (config.train.guard_interval == 0 || guarded == step) return;
  const Clock::time_point begin = Clock::now();
  CorruptionGuard::Finding found = corruption.compare_states();
  const double hashing = seconds_since(begin);
  // The first micro-batch of the last step or, with pipeline stages, all of them.
  if (found.what.empty() && last_samples > 0) {
    const std::int64_t before = consumed_samples - last_samples;
    engine.set_length(curriculum.length(step - 1));
    StepInput input;
    input.step = static_cast<std::uint64_t>(step - 1);
    input.loss_scale = loss_scale.scale();
    input.micro_batches = config.parallel.pp > 1 ? batches.micro_batches(before) : 1;
    std::optional<Loader> others;
    std::deque<Batch> read;
    found = corruption.compute_twice(input, [&](int index, std::int64_t k) {
      if (k == 0) {
        LoaderConfig of_step = loading();
        of_step.dp_rank = index;
        of_step.consumed_samples = before;
        of_step.prefetch = 1;
        others.emplace(train_data, of_step);
        read.clear();
      }
      cut(read.emplace_back(others->next()), engine.length());
      return static_cast<const Batch*>(&read.back());
    });
  }
  if (!found.what.empty()) refuse_corruption(found);
  guarded = step;
  folder.write_timings(step, std::vector<Metric>{{"guard_seconds", seconds_since(begin)},
                                                 {"guard_hash_seconds", hashing},
                                                 {"guard_hash_bytes", corruption.hashed_bytes()}});
}

// With the guard, nothing is saved unchecked. Only the checkpoint from which the run started may
// have been saved without it.
void Trainer::Parts::refuse_corruption(const CorruptionGuard::Finding& found) {
  checkpoints.finish();
  const std::vector<std::string> hosts =
      reports_of_ranks(transport, transport ? transport->place().host : "");
  std::string text;
  if (leads()) {
    std::set<std::string> suspects;
    for (const int suspect : found.suspects) {
      const std::string& host = hosts[static_cast<std::size_t>(suspect)];
      if (!host.empty()) suspects.insert(host);
    }
    const std::int64_t saved = checkpoints.saved_step();
    const std::string from = saved >= 0 ? fmt::format("step {}", saved) : "the beginning";
    text = fmt::format(
        "silent data corruption detected after step {}: {}. {}; {}", step, found.what,
        guarded >= 0 ? fmt::format("The last successful check was after step {}", guarded)
                     : "This was the first check",
        guarded >= saved
            ? fmt::format("nothing has been saved since then, and the run resumes from {}", from)
            : fmt::format("the run resumes from {}, which was saved without a check for corruption",
                          from));
    text += suspects_text({suspects.begin(), suspects.end()});
  }
  fail("{}", from_rank_0(transport, text));
}

bool Trainer::Parts::wants_to_stop() {
  const double limit = 60 * config.train.exit_duration_minutes;
  if (leads() && options.reason_to_end) {
    ended_by_caller = options.reason_to_end(step + 1, last_seconds);
    if (!ended_by_caller.empty()) return true;
  }
  return InterruptGuard::pending() != 0 || (leads() && limit > 0 && seconds_since(started) > limit);
}

// Returns the same result on all ranks.
std::optional<Trainer::Parts::Stop> Trainer::Parts::reason_to_stop() {
  const std::int64_t every = config.train.exit_interval;
  if (last.stop) {
    std::int64_t signal = InterruptGuard::pending();
    if (rank.size > 1) {
      transport->world()
          .all_reduce(&signal, 1, DType::i64, Reduction::max, "reason to stop")
          .wait();
    }
    if (signal == 0) {
      return Stop{TrainSummary::End::stopped,
                  ended_by_caller.empty() ? "train.exit_duration_minutes" : ended_by_caller};
    }
    return Stop{
        TrainSummary::End::interrupted,
        signal_text(options.original_signal ? options.original_signal(static_cast<int>(signal))
                                            : static_cast<int>(signal))};
  }
  if (every > 0 && step % every == 0)
    return Stop{TrainSummary::End::stopped, "train.exit_interval"};
  return std::nullopt;
}

TrainSummary Trainer::Parts::run() {
  const std::int64_t locally_every = config.checkpoint.local_interval;
  bool locally_due = false;
  if (step == total_steps && step > 0) checkpoints.save(*this);  // it was loaded from a local one
  complete_tasks();
  if (step < total_steps)
    console.print_now(fmt::format("step {}/{} is running", step + 1, total_steps));
  while (step < total_steps && !stop) {
    take_step();
    const bool last_step = step == total_steps;
    if (valid_loader && (last_step || step % config.train.eval_interval == 0)) evaluate();
    if (last_step) test();  // before the last save, so that its lines exist if the save does
    if (!last_step) stop = reason_to_stop();
    const std::int64_t every = config.checkpoint.interval;
    save_due |= every > 0 && step % every == 0;
    // A skipped step may be the first of many that no scale can fix: it must not replace good
    // checkpoints.
    locally_due |= locally_every > 0 && step % locally_every == 0;
    if (tasks_are_due()) tasks_due = save_due = true;
    const bool planned = save_due && last.taken;
    if (last_step || stop || planned) {
      save(planned);
      locally_due = false;
      if (tasks_due && (planned || last_step)) evaluate_tasks();
    } else if (locally_due && last.taken) {
      save_locally();
      locally_due = false;
    }
  }
  return finish();
}

TrainSummary Trainer::Parts::finish() {
  checkpoints.settle();
  exports.finish();
  trace(true);
  return summary();
}

void Trainer::Parts::save(bool planned) {
  check_for_corruption();
  if (planned) {
    save_due = false;
    spikes.saved(step);
  }
  folder.sync();  // a resume must find the lines of all steps not repeated
  // checkpoint.keep must not remove a checkpoint while it is being exported.
  checkpoints.finish();
  exports.finish();
  checkpoints.save(*this);
}

void Trainer::Parts::save_locally() {
  check_for_corruption();
  folder.sync();
  checkpoints.save_locally(*this);
  if (leads()) write_status("running", "", false);
}

std::string Trainer::Parts::nothing_to_do() const {
  const TrainConfig& t = config.train;
  const std::string where = fmt::format("nothing to do: the run is already at step {}", step);
  if (t.samples == 0) return fmt::format("{}; increase train.iters to continue", where);
  return fmt::format(
      "{}, with {} of train.samples = {} consumed and {} per step; increase train.samples to "
      "continue",
      where, consumed_samples, t.samples, batches.batch_size(consumed_samples));
}

TrainSummary Trainer::Parts::summary() {
  TrainSummary s;
  s.steps = step;
  s.loss = last.loss.mean();
  s.valid_loss = valid_loss;
  s.test_loss = test_loss;
  s.tokens_per_second = total_seconds > 0 ? total_tokens / total_seconds : 0;
  s.seconds = total_seconds;
  if (stop) s.end = stop->end;
  if (leads()) write_status(std::string(name_of(s.end)), stop ? stop->why : "");
  if (total_seconds == 0 && !stop) {
    console.print(nothing_to_do());
    return s;
  }
  const std::string figures =
      fmt::format("loss {:.4f}, {:.0f} tokens/s", s.loss, s.tokens_per_second);
  if (stop) {
    const char* const saved = checkpoints.saved_step() == step ? "and saved" : "not saved";
    console.print_now(fmt::format("stopped at step {} of {}, {}: {} ({})", step, total_steps, saved,
                                  stop->why, figures));
  } else {
    console.print_now(fmt::format("done at step {}: {}", step, figures));
  }
  return s;
}

void Trainer::Parts::note_failure(const std::exception& error) {
  if (std::exchange(failed, true)) return;  // the first failure is the reason
  // Only if the folder is this run's, which holds once any rank has passed begin().
  if (leads() ? !folder.locked() : !progress) return;
  console.record(fmt::format("{} trireme: {}", time_of_day(), error.what()));
  write_status("failed",
               leads() ? error.what() : fmt::format("rank {}: {}", rank.rank, error.what()));
}

std::string_view name_of(TrainSummary::End end) {
  return end == TrainSummary::End::done      ? "done"
         : end == TrainSummary::End::stopped ? "stopped"
                                             : "interrupted";
}

Trainer::Trainer(Config config, std::FILE* out, const TrainerOptions& options,
                 Transport* transport) {
  if (transport && transport->place().rank > 0) {
    silence_.reset(std::fopen("/dev/null", "w"));
    out = silence_.get();
  }
  parts_ = std::make_unique<Parts>(std::move(config), out, options, transport);
}
Trainer::~Trainer() = default;

template <class Body>
auto Trainer::noting_failure(const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    note_failure(error);
    throw;
  }
}

void Trainer::note_failure(const std::exception& error) {
  parts_->note_failure(error);
}

TrainSummary Trainer::run() {
  return noting_failure([&] {
    if (!parts_->progress) parts_->begin();
    return parts_->run();
  });
}

void Trainer::begin() {
  noting_failure([&] { parts_->begin(); });
}

StepResult Trainer::train_step() {
  return noting_failure([&] {
    Parts& p = *parts_;
    if (p.step == p.total_steps) {
      fail_input("step {} was requested, but train.iters or train.samples give the run only {}",
                 p.step + 1, counted(p.total_steps, "step"));
    }
    p.take_step();
    return p.last;
  });
}

double Trainer::evaluate() {
  return noting_failure([&] {
    if (!parts_->valid_loader) {
      fail_input(
          "there is no validation data: set train.eval_interval and train.eval_iters above 0, and "
          "provide a share in data.split, data.valid_path or a dataset");
    }
    parts_->evaluate();
    return parts_->valid_loss;
  });
}

void Trainer::save() {
  noting_failure([&] { parts_->save(true); });
}

std::string Trainer::reason_to_stop() {
  return noting_failure([&] {
    Parts& p = *parts_;
    if (!p.stop && p.step > 0 && p.step < p.total_steps) p.stop = p.reason_to_stop();
    return p.stop ? p.stop->why : "";
  });
}

TrainSummary Trainer::finish() {
  return noting_failure([&] {
    Parts& p = *parts_;
    if (!p.stop && p.step < p.total_steps)
      p.stop = {TrainSummary::End::stopped, "the program ended it"};
    return p.finish();
  });
}

void Trainer::log(std::span<const Metric> metrics) {
  parts_->log(metrics);
}

std::int64_t Trainer::step() const {
  return parts_->step;
}
std::int64_t Trainer::total_steps() const {
  return parts_->total_steps;
}
std::int64_t Trainer::consumed_samples() const {
  return parts_->consumed_samples;
}
std::int64_t Trainer::consumed_tokens() const {
  return parts_->consumed_tokens;
}
double Trainer::learning_rate() const {
  return parts_->last_lr;
}
std::int64_t Trainer::planned_bytes() const {
  return planned_memory(parts_->engine, parts_->config).total();
}
const Config& Trainer::config() const {
  return parts_->config;
}

}  // namespace trireme
