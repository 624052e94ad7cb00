// One object per concern, wired together: data, engine, schedules, metrics, checkpoints.
#include "train/trainer.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <future>
#include <optional>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "data/dataset_builder.h"
#include "data/loader.h"
#include "graph/dump.h"
#include "optim/loss_scale.h"
#include "train/batch_schedule.h"
#include "train/curriculum.h"
#include "train/device_peak.h"
#include "train/engine.h"
#include "train/interrupt.h"
#include "train/lr_schedule.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/ranks.h"
#include "train/run_lock.h"
#include "train/setup.h"
#include "train/slices.h"
#include "train/tensorboard.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

StageOptions stage_options(const TrainerOptions& options) {
  StageOptions stage;
  stage.reuse = !options.paranoid;
  stage.poison = options.paranoid;
  return stage;
}

MicroBatch view_of(const Batch& batch) {
  return {batch.tokens.data(),    batch.targets.data(),       batch.loss_weights.data(),
          batch.positions.data(), batch.first_visible.data(), batch.sample_ids.data(),
          batch.segments.data(),  batch.lengths.data(),       batch.order_labels.data()};
}

}  // namespace

struct Trainer::Parts {
  Parts(Config c, std::FILE* out, const TrainerOptions& options, Transport* transport);

  TrainSummary run();

  // --- the run's parts ---
  void open_data();
  void open_data_in_turn();
  void print_plan();
  void check_memory() const;
  void check_ranks_agree();
  void check_graphs_agree();
  void begin();
  fs::path newest_checkpoint();
  void load_checkpoint(const fs::path& path, bool resume);
  CheckpointState state() const;
  void save();
  void finish_save();
  void note_save(const SaveReport& report);

  // --- one step ---
  StepInput step_input();
  // Micro-batch k of this rank in the step at hand.
  MicroBatch micro_batch(std::int64_t k);
  void train_one_step();
  void after_step();
  void report();
  void evaluate();
  bool wants_to_stop() const;
  bool should_stop();
  void trace(bool ended);

  bool leads() const { return rank.rank == 0; }  // prints and writes what is not a checkpoint
  bool has_order_head() const { return config.model.family == "bert" && config.model.order_head; }

  Config config;
  Transport* transport;  // null: alone
  RankOf rank;
  std::FILE* out;
  std::int64_t eod_id;
  BatchSchedule batches;
  LrSchedule lr_schedule;
  Curriculum curriculum;
  std::int64_t total_steps;
  std::shared_ptr<const Dataset> train_data, valid_data;
  Engine engine;
  LossScale loss_scale;

  // Counters; a checkpoint holds them all.
  std::int64_t step = 0, consumed_samples = 0, consumed_tokens = 0, scheduled_samples = 0,
               skipped = 0;

  std::optional<Loader> loader, valid_loader;
  std::optional<MetricsFile> metrics, timings;
  std::optional<TensorBoardFile> tensorboard;
  std::optional<Progress> progress;
  std::optional<RunLock> lock;
  std::optional<AsyncSaver> saver;
  std::optional<Trace> recording;
  std::vector<Batch> step_batches;
  std::int64_t saved_step = -1;

  // Since the last report.
  struct Interval {
    LossSum loss;
    double seconds = 0, tokens = 0;
    std::int64_t steps = 0, skipped = 0;
  } interval;
  StepResult last;
  double last_lr = 0, last_seconds = 0, last_tokens = 0;
  double total_seconds = 0, total_tokens = 0, valid_loss = 0;
  bool interrupted = false;
  Clock::time_point started = Clock::now();
};

namespace {

// Any parameter of this rank.
const std::string& first_parameter(const Engine& engine) {
  return engine.stage().definition().parameters.front().name;
}

RankOf rank_of(const Transport* transport) {
  return transport ? RankOf{transport->place().rank, transport->place().size} : RankOf{};
}

}  // namespace

Trainer::Parts::Parts(Config c, std::FILE* o, const TrainerOptions& options, Transport* t)
    : config((validate(c), validate_layout(c, rank_of(t).size), refuse_what_is_not_there(c),
              std::move(c))),
      transport(t),
      rank(rank_of(t)),
      out(o),
      eod_id(resolve_vocabulary(config)),
      batches(config, rank.size),
      lr_schedule(
          make_lr_schedule(config.optimizer, config.train, global_batch_size(config, rank.size))),
      curriculum(config),
      total_steps(config.train.iters > 0 ? config.train.iters
                                         : batches.steps(config.train.samples)),
      engine(config, build_options(config), stage_options(options), rank),
      loss_scale(config.optimizer, config.run.precision) {
  open_data_in_turn();
  print_plan();
  check_memory();
}

// Better refused now than killed by the system in the first step.
void Trainer::Parts::check_memory() const {
  const std::int64_t needed =
      planned_memory(engine, config).total() * (transport ? transport->place().local_size : 1);
  const std::int64_t there = machine_memory_bytes();
  if (needed <= there) return;
  fail_input(
      "the plan needs {}{}, and this machine has {}: use a smaller model or micro-batch, "
      "parallel.recompute, parallel.zero or more machines (trireme plan shows what each would "
      "need)",
      bytes_to_text(needed), rank.size > 1 ? " for the processes of this machine" : "",
      bytes_to_text(there));
}

// The first rank builds what is cached beside the data; the others find it. However long that
// takes, no rank waits for another longer than a moment: the watchdog has nothing to say.
void Trainer::Parts::open_data_in_turn() {
  if (rank.size == 1) return open_data();
  std::future<void> opening;
  if (leads()) opening = std::async(std::launch::async, [this] { open_data(); });
  std::int64_t ready = 0;
  while (!ready) {
    if (leads())
      ready = opening.wait_for(std::chrono::milliseconds(100)) == std::future_status::ready;
    transport->world().broadcast(&ready, 1, DType::i64, 0, "opening the data").wait();
  }
  leads() ? opening.get() : open_data();
}

void Trainer::Parts::open_data() {
  DatasetBuilder builder =
      config.model.family == "bert"
          ? DatasetBuilder(config.data, bert_options(config))
          : DatasetBuilder(config.data, gpt_options(config, config.model.vocab_size, eod_id));
  const SampleCounts counts =
      sample_counts(config.train, total_steps, global_batch_size(config, rank.size));
  train_data = builder.build(Split::train, counts.train);
  if (!train_data) fail_input("data: the configuration gives the training split no data");
  if (config.train.eval_interval > 0 && config.train.eval_iters > 0) {
    valid_data = builder.build(Split::valid, counts.valid);
  }
}

void Trainer::Parts::print_plan() {
  const ModelConfig& m = config.model;
  fmt::print(
      out,
      "model: {} with {} layers, hidden {}, {} heads, {} positions, vocabulary {} ({} computed)\n",
      m.family, m.num_layers, m.hidden_size, m.num_heads, m.seq_length, m.vocab_size,
      padded_vocabulary(m, static_cast<int>(config.parallel.tp)));
  fmt::print(out, "parameters: {}; precision {}; instruction set {}; {} threads\n",
             parameter_count(m), config.run.precision, cpu::name_of(cpu::isa()),
             ThreadPool::global().size());
  if (rank.size > 1) {
    fmt::print(out, "mesh: {}; ZeRO {}, {} numerics\n", engine.mesh().text(), config.parallel.zero,
               config.parallel.numerics);
  }
  if (curriculum.active()) {
    fmt::print(out, "sequences: {} tokens at first, {} from iteration {} on\n",
               curriculum.length(0), m.seq_length, config.curriculum.iters);
  }
  if (config.parallel.pp > 1) {
    const std::int64_t m0 = batches.micro_batches(0);
    fmt::print(out, "schedule: {}\n", summary(engine.schedule(m0), engine.schedule_report(m0)));
  }
  fmt::print(out, "memory, planned{}:\n{}", rank.size > 1 ? " on rank 0" : "",
             to_text(planned_memory(engine, config)));
  std::fflush(out);
}

void Trainer::Parts::check_ranks_agree() {
  if (rank.size == 1) return;
  check_agreement(transport->world(),
                  {{"version", hash64(TRIREME_VERSION)},
                   {"configuration", hash64(to_toml(config))},
                   {"training data", train_data->order_key()},
                   {"instruction set", static_cast<std::uint64_t>(cpu::isa())},
                   {"number of steps", static_cast<std::uint64_t>(total_steps)}});
}

void Trainer::Parts::check_graphs_agree() {
  for (const auto* group :
       {&engine.groups().tensor, &engine.groups().shard, &engine.groups().replicate}) {
    if ((*group)->size() > 1) check_agreement(**group, {{"graph layout", engine.layout_hash()}});
  }
}

void Trainer::Parts::begin() {
  make_folders(config.run.dir);
  if (leads()) lock.emplace(config.run.dir);
  // Before they meet in groups, which differ where the configuration does.
  check_ranks_agree();
  const std::int64_t before = MemoryBlock::allocated();
  engine.allocate(transport);
  check_graphs_agree();
  TRIREME_CHECK(MemoryBlock::allocated() - before == engine.memory().total());

  const fs::path dir = config.run.dir;
  if (const fs::path newest = newest_checkpoint(); !newest.empty()) {
    load_checkpoint(newest, true);
  } else if (!config.checkpoint.load.empty()) {
    load_checkpoint(config.checkpoint.load, !config.checkpoint.finetune);
  } else {
    engine.initialize();
  }
  if (leads()) {
    write_file_durably(dir / "config.toml", to_toml(config));
    metrics.emplace(dir / "metrics.jsonl", step);
    timings.emplace(dir / "timings.jsonl", step);
    if (config.log.tensorboard) tensorboard.emplace(dir / "tensorboard", step);
  }
  progress.emplace(out, step, total_steps, rank.size == 1);
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

// Of the run's own, or nothing. One rank looks: others may see a shared folder later than it does.
fs::path Trainer::Parts::newest_checkpoint() {
  std::string path;
  if (leads()) {
    if (const auto found = find_checkpoint(config.run.dir)) path = fs::absolute(found->folder);
  }
  return rank.size == 1 ? path : checkpoint_ranks(*transport).broadcast(path);
}

void Trainer::Parts::load_checkpoint(const fs::path& path, bool resume) {
  CheckpointReader reader(path);
  if (rank.size > 1) {
    check_agreement(transport->world(),
                    {{"loaded checkpoint", hash64(to_text(reader.manifest()))}});
  }
  const CheckpointState& saved = reader.state();
  SliceOptions wanted;
  wanted.moments = resume && config.checkpoint.load_optimizer;
  if (wanted.moments && !reader.manifest().find(moment_name(first_parameter(engine), 0))) {
    fail_input(
        "'{}' holds weights without the optimizer's states: set checkpoint.finetune = true to "
        "start from them, or checkpoint.load_optimizer = false to go on without",
        reader.folder().string());
  }
  std::vector<TargetSlice> slices;
  for (int c = 0; c < engine.chunks(); ++c) {
    const auto own = loaded_slices(engine.stage(c), engine.optimizer(c), wanted);
    slices.insert(slices.end(), own.begin(), own.end());
  }
  reader.read(slices, {.convert = true, .pool = &ThreadPool::global()});
  engine.refresh_compute();
  if (!resume) {
    fmt::print(out, "weights from {}; counters start at zero\n", reader.folder().string());
    return;
  }
  step = saved.step;
  saved_step = step;
  consumed_samples = saved.consumed_samples;
  consumed_tokens = saved.consumed_tokens;
  const auto counter = [&](const char* name) {
    const auto found = saved.counters.find(name);
    return found == saved.counters.end() ? 0 : found->second;
  };
  const auto number = [&](const char* name, double otherwise) {
    const auto found = saved.numbers.find(name);
    return found == saved.numbers.end() ? otherwise : found->second;
  };
  scheduled_samples = counter("scheduled_samples");
  skipped = counter("skipped_steps");
  if (wanted.moments) engine.set_steps(counter("optimizer_steps"));
  LossScaleState scaling;
  scaling.scale = number("loss_scale", loss_scale.scale());
  scaling.good_steps = counter("loss_scale_good_steps");
  scaling.hysteresis = counter("loss_scale_hysteresis");
  if (loss_scale.is_dynamic()) loss_scale.restore(scaling);
  valid_loss = number("valid_loss", 0);
  fmt::print(out, "resumed from {} at step {}\n", reader.folder().string(), step);
  const auto order = saved.texts.find("data_order");
  if (order != saved.texts.end() &&
      order->second != fmt::format("{:016x}", train_data->order_key())) {
    fmt::print(out,
               "warning: the order of the training data is not the one of the saved run, because "
               "the data, its split, the sequence length, the seed or the number of steps "
               "changed; samples may repeat\n");
  }
}

CheckpointState Trainer::Parts::state() const {
  CheckpointState s;
  s.step = step;
  s.consumed_samples = consumed_samples;
  s.consumed_tokens = consumed_tokens;
  s.counters = {{"scheduled_samples", scheduled_samples},
                {"skipped_steps", skipped},
                {"optimizer_steps", engine.steps()},
                {"loss_scale_good_steps", loss_scale.state().good_steps},
                {"loss_scale_hysteresis", loss_scale.state().hysteresis}};
  s.numbers = {{"loss_scale", loss_scale.scale()}, {"valid_loss", valid_loss}};
  s.texts = {{"data_order", fmt::format("{:016x}", train_data->order_key())}};
  s.config_toml = to_toml(config);
  return s;
}

void Trainer::Parts::save() {
  if (saved_step == step) return;
  SaveOptions options;
  options.folder = fs::path(config.run.dir) / "checkpoints";
  options.program = "trireme " TRIREME_VERSION;
  options.keep = config.checkpoint.keep;
  const Ranks ranks = transport ? checkpoint_ranks(*transport) : Ranks{};
  const Clock::time_point begin = Clock::now();
  finish_save();  // of an earlier step
  if (metrics) metrics->sync();
  std::vector<SourceSlice> slices;
  for (int c = 0; c < engine.chunks(); ++c) {
    const auto own = saved_slices(engine.stage(c), engine.optimizer(c),
                                  [&](const Parameter& p) { return engine.speaks_for(c, p.spec); });
    slices.insert(slices.end(), own.begin(), own.end());
  }
  saved_step = step;
  if (!config.checkpoint.async) return note_save(save_checkpoint(options, state(), slices, ranks));
  if (!saver) saver.emplace(options, ranks);
  const double copying = saver->start(state(), slices);
  progress->note(fmt::format(
      "saving step {} in the background; training waited {:.3f} s, {:.3f} s of it to copy", step,
      seconds_since(begin), copying));
}

void Trainer::Parts::finish_save() {
  if (!saver) return;
  if (const std::optional<SaveReport> report = saver->finish()) note_save(*report);
}

void Trainer::Parts::note_save(const SaveReport& report) {
  progress->note(fmt::format("saved {} ({}, {:.2f} s)", report.folder.string(),
                             bytes_to_text(report.bytes), report.seconds));
  if (!report.warning.empty()) progress->note("warning: " + report.warning);
}

StepInput Trainer::Parts::step_input() {
  StepInput input;
  input.step = static_cast<std::uint64_t>(step);
  input.micro_batches = batches.micro_batches(consumed_samples);
  input.lr = last_lr = lr_schedule(scheduled_samples);
  input.clip_grad = config.optimizer.clip_grad;
  input.loss_scale = loss_scale.scale();
  input.stop = [this] { return wants_to_stop(); };
  input.saving = [this] { return saver && !saver->written(); };
  return input;
}

MicroBatch Trainer::Parts::micro_batch(std::int64_t k) {
  while (static_cast<std::int64_t>(step_batches.size()) <= k)
    cut(step_batches.emplace_back(loader->next()), engine.length());
  return view_of(step_batches[static_cast<std::size_t>(k)]);
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
  if (!last.finite) {
    if (!loss_scale.is_dynamic() && config.train.check_nan) {
      finish_save();
      fail(
          "step {}: loss or gradients are not finite; first in {}. The last checkpoint in '{}' is "
          "untouched; lower optimizer.lr or look at the data of samples {} to {}",
          step + 1, engine.explain_not_finite(input, next), config.run.dir, consumed_samples,
          consumed_samples + samples - 1);
    }
    ++skipped;
    ++interval.skipped;
  } else {
    scheduled_samples += samples;
  }
  if (saver && !last.saving) finish_save();
  loss_scale.update(!last.finite);
  ++step;
  consumed_samples += samples;
  consumed_tokens += samples * engine.length();

  last_seconds = seconds_since(begin);
  last_tokens = static_cast<double>(samples * engine.length());
  interval.seconds += last_seconds;
  interval.tokens += last_tokens;
  ++interval.steps;
  if (std::isfinite(last.loss.loss)) interval.loss += last.loss;
  total_seconds += last_seconds;
  total_tokens += last_tokens;
}

void Trainer::Parts::after_step() {
  std::vector<Metric> line = {{"loss", std::isfinite(last.loss.loss) ? last.loss.mean() : NAN},
                              {"lr", last_lr},
                              {"grad_norm", last.grad_norm},
                              {"consumed_samples", consumed_samples},
                              {"consumed_tokens", consumed_tokens}};
  if (curriculum.active()) line.push_back({"seq_length", engine.length()});
  if (has_order_head()) {
    line.push_back({"lm_loss", last.finite ? last.loss.token_mean() : NAN});
    line.push_back({"order_loss", last.finite ? last.loss.order_mean() : NAN});
  }
  if (config.run.precision == "fp16") {
    line.push_back({"loss_scale", loss_scale.scale()});
    line.push_back({"skipped_steps", skipped});
  }
  if (metrics) metrics->write(step, line);
  if (timings) {
    timings->write(step, std::vector<Metric>{{"seconds", last_seconds},
                                             {"tokens_per_second", last_tokens / last_seconds}});
  }
  progress->tick(step, last.loss.mean());
}

void Trainer::Parts::report() {
  if (interval.steps == 0) return;
  ProgressReport r;
  r.iteration = step;
  r.iterations = total_steps;
  r.loss = interval.loss.mean();
  if (has_order_head()) r.order_loss = interval.loss.order_mean();
  r.lr = last_lr;
  r.grad_norm = last.grad_norm;
  r.tokens_per_second = interval.tokens / interval.seconds;
  ModelConfig now = config.model;
  now.seq_length = engine.length();
  r.flops_per_second = r.tokens_per_second * training_flops_per_token(now) / rank.size;
  r.peak_flops = device_peak_flops(config.run.device, config.run.precision);
  r.memory_bytes = static_cast<std::uint64_t>(peak_resident_bytes());
  r.seconds_per_iteration = interval.seconds / static_cast<double>(interval.steps);
  if (config.run.precision == "fp16") r.loss_scale = loss_scale.scale();
  r.skipped = interval.skipped;
  progress->report(r);
  if (tensorboard) {
    std::vector<Scalar> scalars = {
        {"lm loss", interval.loss.token_mean()},
        {"learning-rate", r.lr},
        {"grad-norm", r.grad_norm},
        {"loss-scale", loss_scale.scale()},
        {"batch-size", static_cast<double>(batches.batch_size(consumed_samples))},
        {"iteration-time", r.seconds_per_iteration},
        {"throughput", r.flops_per_second / 1e12},
        {"world-size", static_cast<double>(rank.size)}};
    if (r.order_loss) scalars.push_back({"sop loss", *r.order_loss});
    tensorboard->write_both(step, consumed_samples, scalars);
  }
  interval = {};
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
                                        return view_of(batch);
                                      });
  valid_loss = sum.mean();
  std::vector<Metric> line = {{"valid_loss", valid_loss}};
  std::vector<Scalar> scalars = {{"lm loss validation", sum.token_mean()}};
  if (has_order_head()) {
    line.push_back({"valid_lm_loss", sum.token_mean()});
    line.push_back({"valid_order_loss", sum.order_mean()});
    scalars.push_back({"sop loss validation", sum.order_mean()});
  }
  if (metrics) metrics->write(step, line);
  if (tensorboard) tensorboard->write_both(step, consumed_samples, scalars);
  progress->note(fmt::format("step {}: validation loss {:.4f}, perplexity {:.2f}", step, valid_loss,
                             std::exp(sum.token_mean())));
}

bool Trainer::Parts::wants_to_stop() const {
  const double limit = 60 * config.train.exit_duration_minutes;
  return InterruptGuard::pending() != 0 || (leads() && limit > 0 && seconds_since(started) > limit);
}

bool Trainer::Parts::should_stop() {
  const std::int64_t every = config.train.exit_interval;
  if (last.stop) {
    const int signal = InterruptGuard::pending();
    const std::string why = signal != 0 ? fmt::format("signal {} ({})", signal, strsignal(signal))
                            : rank.size > 1 ? "train.exit_duration_minutes or a signal to a rank"
                                            : "train.exit_duration_minutes";
    progress->note(fmt::format("stopping at step {}: {}", step, why));
    return true;
  }
  if (every > 0 && step % every == 0) {
    progress->note(fmt::format("stopping at step {}: train.exit_interval", step));
    return true;
  }
  return false;
}

// Begins and ends the recording of the steps that train.trace_steps names.
void Trainer::Parts::trace(bool ended) {
  const auto& steps = config.train.trace_steps;
  if (steps.empty()) return;
  if (!recording && step + 1 >= steps.front() && step < steps.back() && !ended) {
    recording.emplace(rank.rank);
    engine.set_trace(&*recording);
    if (transport) transport->set_listener(&*recording);
  }
  if (recording && (ended || step >= steps.back())) {
    engine.set_trace(nullptr);
    if (transport) transport->set_listener(nullptr);
    std::vector<std::string> parts = {recording->json()};
    if (rank.size > 1) parts = checkpoint_ranks(*transport).gather(parts[0]);
    recording.reset();
    if (!leads()) return;
    const fs::path path = fs::path(config.run.dir) / "trace.json";
    write_file_durably(path, fmt::format("[\n{}\n]\n", fmt::join(parts, ",\n")));
    progress->note(fmt::format("trace of steps up to {} in {}", step, path.string()));
  }
}

TrainSummary Trainer::Parts::run() {
  const InterruptGuard guard;
  begin();
  while (step < total_steps && !interrupted) {
    train_one_step();
    after_step();
    const bool last_step = step == total_steps;
    if (last_step || (config.train.log_interval > 0 && step % config.train.log_interval == 0))
      report();
    if (valid_loader && (last_step || step % config.train.eval_interval == 0)) evaluate();
    interrupted = !last_step && should_stop();
    const std::int64_t every = config.checkpoint.interval;
    if (last_step || interrupted || (every > 0 && step % every == 0)) save();
  }
  finish_save();
  trace(true);
  TrainSummary summary;
  summary.steps = step;
  summary.loss = last.loss.mean();
  summary.valid_loss = valid_loss;
  summary.tokens_per_second = total_seconds > 0 ? total_tokens / total_seconds : 0;
  summary.seconds = total_seconds;
  summary.interrupted = interrupted;
  return summary;
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
  return parts_->run();
}

void Trainer::dump_graphs(const std::string& folder) const {
  make_folders(folder);
  const Stage& stage = parts_->engine.stage();
  const auto& templates = stage.definition().templates;
  for (std::size_t t = 0; t < templates.size(); ++t) {
    const Graph& graph = *templates[t].train;
    const std::string title = graph.input() == no_value    ? "embedding"
                              : graph.output() == no_value ? "head"
                                                           : fmt::format("block{}", t);
    const SegmentPlan& plan = stage.segment_plan(static_cast<int>(t), true);
    write_file_durably(fs::path(folder) / (title + ".txt"),
                       dump_text(*templates[t].train, plan, title));
    write_file_durably(fs::path(folder) / (title + ".dot"),
                       dump_dot(*templates[t].train, plan, title));
  }
}

}  // namespace trireme
