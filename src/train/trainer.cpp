// One object per concern, wired together: data, engine, schedules, metrics, checkpoints.
#include "train/trainer.h"

#include <cmath>
#include <csignal>
#include <future>

#include "base/file.h"
#include "base/hash.h"
#include "data/configured_tokenizer.h"
#include "data/dataset_builder.h"
#include "data/unread_dataset.h"
#include "runtime/devices.h"
#include "train/ranks.h"
#include "train/run_status.h"
#include "train/setup.h"
#include "train/trainer_parts.h"

namespace trireme {
namespace {

StageOptions stage_options(const Config& config, const TrainerOptions& options) {
  StageOptions stage;
  stage.device = &device_of(config.run.device);
  stage.reuse = !options.paranoid;
  stage.poison = options.paranoid;
  return stage;
}

RankOf rank_of(const Transport* transport) {
  return transport ? RankOf{transport->place().rank, transport->place().size} : RankOf{};
}

// What a rank that is busy with files answers to those that wait for it.
ActivitySource activity_of(std::shared_ptr<const FileProgress> files) {
  return [files = std::move(files)] {
    const FileProgress::State now = files->state();
    Activity activity{now.what != nullptr, now.moves, now.what ? now.what : ""};
    if (now.total > 0) {
      activity.text += fmt::format(", {} of {}", bytes_text(static_cast<std::uint64_t>(now.done)),
                                   bytes_text(static_cast<std::uint64_t>(now.total)));
    }
    return activity;
  };
}

}  // namespace

Trainer::Parts::Parts(Config c, std::FILE* o, const TrainerOptions& options, Transport* t)
    : config((validate(c), validate_layout(c, rank_of(t).size), refuse_what_is_not_there(c),
              refuse_foreign_folders(c), std::move(c))),
      transport(t),
      rank(rank_of(t)),
      console(o, rank.size == 1),
      eod_id(resolve_vocabulary(config)),
      batches(config, rank.size),
      curriculum(config),
      lr_schedule(make_lr_schedule(config.optimizer, config.train,
                                   global_batch_size(config, rank.size),
                                   [this](std::int64_t samples) { return tokens_after(samples); })),
      ordered_steps(config.train.iters > 0 ? config.train.iters
                                           : batches.steps(config.train.samples)),
      total_steps(steps_to_take()),
      engine(config, build_options(config), stage_options(config, options), rank),
      loss_scale(config.optimizer, config.run.precision),
      losses(losses_of(config.model)) {
  if (transport) transport->set_activity(activity_of(files));
  print_plan();
  check_memory();
  open_data_in_turn();
}

std::int64_t Trainer::Parts::tokens_after(std::int64_t samples) const {
  return consumed_until(batches, curriculum,
                        [&](const Consumed& so_far) { return so_far.samples >= samples; })
      .tokens;
}

std::int64_t Trainer::Parts::steps_to_take() const {
  const std::int64_t tokens = config.train.tokens;
  if (tokens == 0) return ordered_steps;
  return consumed_until(batches, curriculum,
                        [&](const Consumed& so_far) {
                          return so_far.steps == ordered_steps || so_far.tokens >= tokens;
                        })
      .steps;
}

// Better refused now than killed by the system in the first step.
void Trainer::Parts::check_memory() const {
  const std::int64_t processes = transport ? transport->place().local_size : 1;
  const std::int64_t planned = planned_memory(engine, config).total();
  const std::int64_t allowed =
      config.run.memory.empty() ? -1 : parse_byte_size(config.run.memory, "run.memory");
  const std::int64_t there = machine_memory_bytes();
  const bool too_much_here = planned * processes > there;
  if (!too_much_here && (allowed < 0 || planned <= allowed)) return;
  const std::string needed =
      too_much_here
          ? fmt::format("{}{}, and this machine has {}", bytes_to_text(planned * processes),
                        processes > 1 ? fmt::format(" for its {} processes", processes) : "",
                        bytes_to_text(there))
          : fmt::format("{}, and run.memory allows {}", bytes_to_text(planned),
                        bytes_to_text(allowed));
  fail_input(
      "the plan needs {}: use a smaller model or micro-batch, parallel.recompute, parallel.zero or "
      "more machines (trireme plan --memory SIZE says what would fit)",
      needed);
}

bool Trainer::Parts::reads_data() const {
  for (int c = 0; c < engine.chunks(); ++c) {
    if (trireme::reads_data(engine.stage(c).definition(), config.data.reset_position_ids))
      return true;
  }
  return false;
}

// The first rank builds what is cached next to the data; the others that read it find it. However
// long that takes, no rank waits for another longer than a moment, so that the watchdog does not
// fire.
void Trainer::Parts::open_data_in_turn() {
  if (rank.size == 1) return open_data();
  std::future<void> opening;
  if (leads()) opening = std::async(std::launch::async, [this] { open_data(); });
  // What the first rank found: the order of the samples, and whether any are for validation.
  struct {
    std::int64_t ready = 0, failed = 0, order = 0, validates = 0;
  } found;
  std::exception_ptr failure;
  while (!found.ready) {
    if (leads() && opening.wait_for(std::chrono::milliseconds(100)) == std::future_status::ready) {
      found.ready = 1;
      try {
        opening.get();
        found.order = static_cast<std::int64_t>(train_data->order_key());
        found.validates = valid_data != nullptr;
      } catch (...) {
        failure = std::current_exception();
        found.failed = 1;
      }
    }
    transport->world().broadcast(&found, 4, DType::i64, 0, "opening the data").wait();
  }
  if (failure) std::rethrow_exception(failure);
  if (leads()) return;
  if (reads_data() || found.failed) return open_data();
  train_data = std::make_shared<UnreadDataset>(config.model.seq_length,
                                               static_cast<std::uint64_t>(found.order));
  if (found.validates) valid_data = train_data;
}

void Trainer::Parts::open_data() {
  DatasetBuilder builder(config, config.model.vocab_size, eod_id);
  const SampleCounts counts =
      sample_counts(config.train, ordered_steps, global_batch_size(config, rank.size));
  train_data = builder.build(Split::train, counts.train);
  if (!train_data) fail_input("the training split is empty: check data.split and data.path");
  if (config.train.eval_interval > 0 && config.train.eval_iters > 0) {
    valid_data = builder.build(Split::valid, counts.valid);
  }
}

void Trainer::Parts::check_ranks_agree() {
  if (rank.size == 1) return;
  check_agreement(transport->world(),
                  {{"version", hash64(TRIREME_VERSION)},
                   {"configuration", hash64(to_toml(config))},
                   {"training data", train_data->order_key()},
                   {"device", hash64(device_of(config.run.device).signature())},
                   {"number of steps", static_cast<std::uint64_t>(total_steps)}});
}

void Trainer::Parts::check_graphs_agree() {
  for (const auto* group :
       {&engine.groups().tensor, &engine.groups().shard, &engine.groups().replicate}) {
    if ((*group)->size() > 1)
      check_agreement((*group)->on_host(), {{"graph layout", engine.layout_hash()}});
  }
}

void Trainer::Parts::begin() {
  make_folders(config.run.dir);
  if (leads()) lock.emplace(config.run.dir);
  // Before they meet in groups, which differ where the configuration does.
  check_ranks_agree();
  // From here on the folder is this run's, whichever rank ends the job.
  if (transport) {
    transport->set_last_words([dir = fs::path(config.run.dir)](const std::string& message) {
      mark_failed(dir, message);
    });
  }
  const Device& device = device_of(config.run.device);
  const std::int64_t before = device.allocated();
  engine.allocate(transport);
  check_graphs_agree();
  TRIREME_CHECK(device.allocated() - before == engine.memory().total());

  const fs::path dir = config.run.dir;
  if (leads()) console.keep_in(dir / "log.txt");
  if (const fs::path newest = newest_checkpoint(); !newest.empty()) {
    load_checkpoint(newest, true);
  } else if (!config.checkpoint.load.empty()) {
    const fs::path path = find_on_rank_0(config.checkpoint.load);
    if (path.empty())
      fail_input("checkpoint.load = '{}' holds no checkpoint", config.checkpoint.load);
    load_checkpoint(path, !config.checkpoint.finetune);
  } else {
    engine.initialize();
  }
  if (leads()) {
    keep_tokenizer(config, dir);
    write_file_durably(dir / "config.toml", to_toml(config));
    open_logs();
    write_status("running", "");
  }
  progress.emplace(console, step, total_steps);
  LoaderConfig loading;
  loading.dp_rank = engine.mesh().dp_index(rank.rank);
  loading.dp_size = engine.mesh().degrees().dp();
  loading.micro_batch_size = config.train.micro_batch_size;
  loading.prefetch = config.data.prefetch;
  loading.consumed_samples = consumed_samples;
  if (step < total_steps) loader.emplace(train_data, loading);
  loading.consumed_samples = 0;
  if (valid_data) valid_loader.emplace(valid_data, loading);
}

StepInput Trainer::Parts::step_input() {
  StepInput input;
  input.step = static_cast<std::uint64_t>(step);
  input.micro_batches = batches.micro_batches(consumed_samples);
  input.lr = last_lr = lr_schedule(scheduled_samples, consumed_tokens);
  input.clip_grad = config.optimizer.clip_grad;
  input.loss_scale = loss_scale.scale();
  input.stop = [this] { return wants_to_stop(); };
  input.saving = [this] { return saver && !saver->written(); };
  return input;
}

const Batch* Trainer::Parts::micro_batch(std::int64_t k) {
  while (static_cast<std::int64_t>(step_batches.size()) <= k)
    cut(step_batches.emplace_back(loader->next()), engine.length());
  return &step_batches[static_cast<std::size_t>(k)];
}

void Trainer::Parts::train_one_step() {
  const Clock::time_point begin = Clock::now();
  engine.set_length(curriculum.length(step));
  const StepInput input = step_input();
  const MicroBatches next = [this](std::int64_t k) { return micro_batch(k); };
  step_batches.clear();
  trace(false);
  last = engine.train_step(input, next);
  const std::int64_t samples = batches.batch_size(consumed_samples);
  loss_scale.update(!last.finite);
  if (!last.finite) {
    if (config.train.check_nan && (!loss_scale.is_dynamic() || loss_scale.is_stuck())) {
      finish_save();
      fail(
          "step {}: loss or gradients are not finite{}; first in {}. The last checkpoint in '{}' "
          "is untouched; lower optimizer.lr or look at the data of samples {} to {}",
          step + 1,
          loss_scale.is_stuck()
              ? fmt::format(", for the {}th time in a row at optimizer.min_loss_scale = {}",
                            LossScale::patience, loss_scale.scale())
              : "",
          engine.explain_not_finite(input, next), config.run.dir, consumed_samples,
          consumed_samples + samples - 1);
    }
    ++skipped;
    ++interval.skipped;
  } else {
    scheduled_samples += samples;
  }
  if (saver && !last.saving) finish_save();
  ++step;
  consumed_samples += samples;
  consumed_tokens += samples * engine.length();

  last_seconds = seconds_since(begin);
  last_tokens = static_cast<double>(samples * engine.length());
  interval.seconds += last_seconds;
  interval.tokens += last_tokens;
  interval.samples += static_cast<double>(samples);
  ++interval.steps;
  if (std::isfinite(last.loss.words().sum)) interval.loss += last.loss;
  total_seconds += last_seconds;
  total_tokens += last_tokens;
}

void Trainer::Parts::evaluate() {
  const TrainConfig& t = config.train;
  engine.set_length(config.model.seq_length);
  const std::int64_t samples = t.eval_iters * global_batch_size(config, rank.size);
  // Each evaluation goes on where the one before ended, also after a resume.
  const std::int64_t earlier = (step + t.eval_interval - 1) / t.eval_interval - 1;
  valid_loader->seek(earlier * samples);
  Batch batch;
  const LossSum sum = engine.evaluate(samples / (t.micro_batch_size * engine.mesh().degrees().dp()),
                                      [&](std::int64_t) {
                                        batch = valid_loader->next();
                                        return &batch;
                                      });
  valid_loss = sum.mean();
  std::vector<Metric> line = {{"valid_loss", valid_loss}};
  std::vector<Scalar> scalars;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double mean = sum.parts[i].mean();
    if (losses.size() > 1) line.push_back({losses[i].valid_metric, mean});
    scalars.push_back({losses[i].valid_scalar, mean});
  }
  if (metrics) log("metrics.jsonl", [&] { metrics->write(step, line); });
  if (tensorboard)
    log("tensorboard", [&] { tensorboard->write_both(step, consumed_samples, scalars); });
  console.print_now(fmt::format("step {}: validation loss {:.4f}, perplexity {:.2f}", step,
                                valid_loss, std::exp(sum.words().mean())));
}

bool Trainer::Parts::wants_to_stop() const {
  const double limit = 60 * config.train.exit_duration_minutes;
  return InterruptGuard::pending() != 0 || (leads() && limit > 0 && seconds_since(started) > limit);
}

// The same on all ranks.
std::optional<Trainer::Parts::Stop> Trainer::Parts::reason_to_stop() {
  const std::int64_t every = config.train.exit_interval;
  if (last.stop) {
    std::int64_t signal = InterruptGuard::pending();
    if (rank.size > 1) {
      transport->world()
          .all_reduce(&signal, 1, DType::i64, Reduction::max, "reason to stop")
          .wait();
    }
    if (signal == 0) return Stop{TrainSummary::End::stopped, "train.exit_duration_minutes"};
    return Stop{TrainSummary::End::interrupted,
                fmt::format("signal {} ({})", signal, strsignal(static_cast<int>(signal)))};
  }
  if (every > 0 && step % every == 0)
    return Stop{TrainSummary::End::stopped, "train.exit_interval"};
  return std::nullopt;
}

TrainSummary Trainer::Parts::run() {
  begin();
  bool due = false;  // a checkpoint
  std::optional<Stop> stop;
  while (step < total_steps && !stop) {
    train_one_step();
    after_step();
    const bool last_step = step == total_steps;
    if (last_step || (config.train.log_interval > 0 && step % config.train.log_interval == 0))
      report();
    if (valid_loader && (last_step || step % config.train.eval_interval == 0)) evaluate();
    if (!last_step) stop = reason_to_stop();
    const std::int64_t every = config.checkpoint.interval;
    due |= every > 0 && step % every == 0;
    // A skipped step may be the first of many that no scale can save: their result must not
    // replace good checkpoints.
    if (last_step || stop || (due && last.finite)) {
      save();
      due = false;
    }
  }
  finish_save();
  trace(true);
  return summary(stop);
}

TrainSummary Trainer::Parts::summary(const std::optional<Stop>& stop) {
  TrainSummary s;
  s.steps = step;
  s.loss = last.loss.mean();
  s.valid_loss = valid_loss;
  s.tokens_per_second = total_seconds > 0 ? total_tokens / total_seconds : 0;
  s.seconds = total_seconds;
  if (stop) s.end = stop->end;
  if (leads()) write_status(std::string(name_of(s.end)), stop ? stop->why : "");
  if (total_seconds == 0) {
    console.print(fmt::format(
        "nothing to do: the run is at step {} already; raise train.iters to go on", step));
    return s;
  }
  const std::string figures =
      fmt::format("loss {:.4f}, {:.0f} tokens/s", s.loss, s.tokens_per_second);
  if (stop) {
    console.print_now(fmt::format("stopped at step {} of {}, and saved: {} ({})", step, total_steps,
                                  stop->why, figures));
  } else {
    console.print_now(fmt::format("done at step {}: {}", step, figures));
  }
  return s;
}

void Trainer::Parts::note_failure(const std::exception& error) {
  // Only where the folder is this run's: it is once any rank has come past begin().
  if (leads() ? !lock : !progress) return;
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
TrainSummary Trainer::run() {
  try {
    return parts_->run();
  } catch (const std::exception& error) {
    parts_->note_failure(error);
    throw;
  }
}

}  // namespace trireme
