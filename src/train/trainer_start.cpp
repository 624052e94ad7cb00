// Start of a trainer: rejects invalid input, opens the data, agrees with the other ranks, allocates
// memory, and loads a checkpoint.
#include <algorithm>
#include <future>

#include "base/counted.h"
#include "base/divide.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/opened_files.h"
#include "config/families.h"
#include "data/dataset_builder.h"
#include "data/unread_dataset.h"
#include "runtime/devices.h"
#include "train/checkpoints/disk_space.h"
#include "train/run/run_status.h"
#include "train/run/setup.h"
#include "train/trainer_parts.h"
#include "train/vocabulary.h"

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

// A GPU collective library chooses the summation order separately for each group of ranks.
bool sums_are_the_same_on_all_ranks(const Config& config) {
  const ParallelConfig& p = config.parallel;
  return config.run.device == DeviceKind::cpu || p.exact() ||
         (p.tp == 1 && p.ep * p.expert_tp == 1);
}

// Tells waiting ranks that a rank is busy with file operations.
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

// Returns the end-of-document id, or -1.
std::int64_t end_of_documents(Config& config, Console& console) {
  std::string note;
  const std::int64_t id = resolve_vocabulary(config, note);
  if (!note.empty()) console.print("note: " + note);
  return id;
}

}  // namespace

Trainer::Parts::Parts(Config c, std::FILE* o, const TrainerOptions& given, Transport* t)
    : RunState{LossScale(c.optimizer, c.run.precision), LossSpikes(c.train)},
      options(given),
      guard(given.note_signals ? std::make_optional<InterruptGuard>() : std::nullopt),
      config((check_start(c, rank_of(t).size), std::move(c))),
      transport(t),
      rank(rank_of(t)),
      console(o, rank.size == 1, config.log.level, files.get()),
      folder(config, console, files.get()),
      eod_id(end_of_documents(config, console)),
      batches(config, rank.size),
      curriculum(config),
      lr_schedule(make_lr_schedule(config.optimizer, config.train,
                                   global_batch_size(config, rank.size),
                                   [this](std::int64_t samples) { return tokens_after(samples); })),
      ordered_steps(steps_in_order()),
      total_steps(steps_to_take()),
      engine(config, build_options(config), stage_options(config, options), rank),
      corruption(engine, device_of(config.run.device), transport,
                 sums_are_the_same_on_all_ranks(config)),
      checkpoints({.config = config,
                   .engine = engine,
                   .transport = transport,
                   .console = console,
                   .files = files.get(),
                   .data_order = [this] { return fmt::format("{:016x}", train_data->order_key()); },
                   .tuning = [this] { return tuning.text(device_of(config.run.device)); },
                   .saved =
                       [this](double waited, double seconds) {
                         if (!leads()) return;
                         folder.write_timings(checkpoints.saved_step(),
                                              std::vector<Metric>{{"save_waited_seconds", waited},
                                                                  {"save_seconds", seconds}});
                         write_status("running", "");
                         exports.start(checkpoints.saved_step());
                       }}),
      exports(config, console, files.get()),
      losses(losses_of(config.model)) {
  ProfilerRange::open_library();
  if (!config.train.eval_tasks.empty() && !options.evaluate_tasks)
    fail_input("train.eval_tasks is for `trireme train` and its like: leave it out");
  if (transport) transport->set_activity(activity_of(files));
  print_plan();
  start_up.done("graphs and memory planned");
  check_memory();
  if (const std::string warning = check_disk(disk_space(config), config);
      !warning.empty() && leads())
    console.warn(warning);
  open_data_in_turn();
  start_up.done(fmt::format("data opened: {} training samples, {} for validation",
                            train_data->size(), valid_data ? valid_data->size() : 0));
}

std::int64_t Trainer::Parts::tokens_after(std::int64_t samples) const {
  return consumed_until(batches, curriculum,
                        [&](const Consumed& so_far) { return so_far.samples >= samples; })
      .tokens;
}

std::int64_t Trainer::Parts::steps_in_order() const {
  const TrainConfig& t = config.train;
  return t.iters > 0 ? t.iters : step + batches.steps(t.samples, consumed_samples);
}

std::int64_t Trainer::Parts::steps_to_take() const {
  const std::int64_t tokens = config.train.tokens;
  if (tokens == 0) return ordered_steps;
  return consumed_until(batches, curriculum,
                        [&](const Consumed& so_far) {
                          return so_far.steps >= ordered_steps || so_far.tokens >= tokens;
                        },
                        {step, consumed_samples, consumed_tokens})
      .steps;
}

std::int64_t Trainer::Parts::samples_to_consume() const {
  return consumed_until(batches, curriculum,
                        [&](const Consumed& so_far) { return so_far.steps >= total_steps; },
                        {step, consumed_samples, consumed_tokens})
      .samples;
}

// The batch size may have changed: remaining steps are counted from the current position.
void Trainer::Parts::adjust_to_batch() {
  if (batches.samples(step) == consumed_samples) return;
  const std::int64_t before = ordered_steps;
  ordered_steps = steps_in_order();
  total_steps = steps_to_take();
  const std::int64_t in_all = samples_to_consume();
  const TrainConfig& t = config.train;
  std::string text = fmt::format(
      "note: the run has consumed {} in {}, with different batch sizes than in this "
      "configuration: from now on a step consumes {}, and the run {} more in {}",
      counted(consumed_samples, "sample"), counted(step, "step"),
      batches.batch_size(consumed_samples), in_all - consumed_samples,
      counted(std::max<std::int64_t>(0, total_steps - step), "step"));
  if (t.samples > 0 && t.tokens == 0 && in_all != t.samples) {
    text +=
        fmt::format("; that is {} of train.samples = {}, which is not a whole number of batches",
                    in_all, t.samples);
  } else if (t.iters > 0) {
    text += fmt::format(
        "; train.iters = {} counts steps, but the learning-rate schedule counts samples and now "
        "uses this batch size: use train.samples so that both end as planned",
        t.iters);
  }
  console.print(text);
  if (ordered_steps != before || train_data->size() < in_all) open_data_in_turn();
}

namespace {

// The driver's context and other programs hold a part of a GPU's memory, perhaps not for long.
void check_free_memory(const Device& device, std::int64_t planned) {
  const std::int64_t free = device.free_bytes();
  if (device.memory_bytes() == 0 || planned <= free) return;
  fail(
      "{} has {} of {} free, but the plan needs {}: stop other programs that use it, or choose "
      "another GPU",
      device.name(), bytes_to_text(free), bytes_to_text(device.memory_bytes()),
      bytes_to_text(planned));
}

}  // namespace

// Fails now rather than being killed by the OS in the first step.
void Trainer::Parts::check_memory() const {
  const std::int64_t on_host = planned_on_host(engine, config).total(),
                     ranks = transport ? transport->place().local_size : 1;
  if (on_host * ranks > machine_memory_bytes()) {
    fail_input(
        "offloaded data and the copy of checkpoint.async need {} of host memory for each of its {} "
        "ranks, but the host has {}: offload less, set checkpoint.async = false, or use more "
        "machines",
        bytes_to_text(on_host), ranks, bytes_to_text(machine_memory_bytes()));
  }
  const Device& device = device_of(config.run.device);
  const std::int64_t of_device = device.memory_bytes();
  const std::int64_t processes = transport && of_device == 0 ? transport->place().local_size : 1;
  const MemoryPlan plan = planned_memory(engine, config);
  const std::int64_t planned = plan.total();
  const std::int64_t allowed =
      config.run.memory.empty() ? -1 : parse_byte_size(config.run.memory, "run.memory");
  const std::int64_t there = of_device > 0 ? of_device : machine_memory_bytes();
  const bool too_much_here = planned * processes > there;
  if (!too_much_here && (allowed < 0 || planned <= allowed))
    return check_free_memory(device, planned);
  const std::string needed =
      too_much_here
          ? fmt::format("{}{}, but {} has {}", bytes_to_text(planned * processes),
                        processes > 1 ? fmt::format(" for its {} processes", processes) : "",
                        of_device > 0 ? device.name() : "this machine", bytes_to_text(there))
          : fmt::format("{}, but run.memory allows {}", bytes_to_text(planned),
                        bytes_to_text(allowed));
  const MemoryRegion& largest = *std::max_element(
      plan.regions.begin(), plan.regions.end(),
      [](const MemoryRegion& a, const MemoryRegion& b) { return a.bytes < b.bytes; });
  fail_input(
      "the plan needs {} (most of it for {}: {}): use a smaller model or micro-batch, "
      "parallel.recompute, parallel.zero or more machines (trireme plan --memory SIZE shows what "
      "would fit)",
      needed, largest.name, bytes_to_text(largest.bytes));
}

bool Trainer::Parts::reads_data() const {
  for (int c = 0; c < engine.chunks(); ++c) {
    if (trireme::reads_data(engine.stage(c).definition(), config.data.reset_position_ids))
      return true;
  }
  return false;
}

// Rank 0 builds the caches next to the data; other ranks find them. However long that
// takes, no rank blocks on another for more than a moment, so that the watchdog does not
// fire.
Trainer::Parts::Opened Trainer::Parts::open_first(const std::function<void()>& open,
                                                  const std::function<void(Opened&)>& describe,
                                                  std::exception_ptr& failure, const char* what) {
  std::future<void> opening;
  if (leads()) opening = std::async(std::launch::async, open);
  Opened found;
  while (!found.ready) {
    if (leads() && opening.wait_for(std::chrono::milliseconds(100)) == std::future_status::ready) {
      found.ready = 1;
      try {
        opening.get();
        describe(found);
      } catch (...) {
        failure = std::current_exception();
        found.failed = 1;
      }
    }
    if (rank.size > 1)
      transport->world()
          .broadcast(&found, sizeof found / sizeof(std::int64_t), DType::i64, 0, what)
          .wait();
  }
  return found;
}

void Trainer::Parts::open_data_in_turn() {
  if (rank.size == 1) return open_data();
  std::exception_ptr failure;
  const Opened found = open_first([this] { open_data(); },
                                  [this](Opened& of_first) {
                                    of_first.order =
                                        static_cast<std::int64_t>(train_data->order_key());
                                    of_first.validates = valid_data != nullptr;
                                  },
                                  failure);
  if (failure) std::rethrow_exception(failure);
  if (leads()) return;
  if (reads_data() || found.failed) return open_data();
  train_data = std::make_shared<UnreadDataset>(config.model.seq_length,
                                               static_cast<std::uint64_t>(found.order));
  if (found.validates) valid_data = train_data;
}

std::shared_ptr<const Dataset> Trainer::Parts::open_test_data(std::string& problem) {
  std::shared_ptr<const Dataset> data;
  const auto open = [&] {
    DatasetBuilder builder(config, config.model.vocab_size, eod_id);
    data = builder.build(Split::test, evaluation_samples());
  };
  std::exception_ptr failure;
  const Opened found = open_first(
      open,
      [&](Opened& of_first) {
        of_first.validates = data != nullptr;
        if (data) of_first.order = static_cast<std::int64_t>(data->order_key());
      },
      failure);
  if (found.failed) {
    problem = "rank 0 could not open the data";
    if (!failure) return nullptr;
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    return nullptr;
  }
  if (leads() || !found.validates) return data;
  if (reads_data()) {
    open();
  } else {
    data = std::make_shared<UnreadDataset>(config.model.seq_length,
                                           static_cast<std::uint64_t>(found.order));
  }
  return data;
}

// Must suffice for the whole run, which would otherwise fail at its end.
void Trainer::Parts::open_own_data() {
  const auto check = [&](const Dataset& data, std::int64_t samples, const char* what) {
    if (data.seq_length() != config.model.seq_length) {
      fail_input("samples of the given {} dataset have {} tokens, but model.seq_length is {}", what,
                 data.seq_length(), config.model.seq_length);
    }
    if (data.size() < samples) {
      fail_input("the given {} dataset has {}, but the run needs {}", what,
                 counted(data.size(), "sample"), samples);
    }
  };
  if (family_of(config.model).samples != SampleKind::next_tokens) {
    fail_input(
        "model.family = {:?} trains on masked sentences, but a dataset given by a program contains "
        "next-token samples: use data.path",
        config.model.family);
  }
  check(*options.train_data, samples_to_consume(), "training");
  train_data = options.train_data;
  const TrainConfig& t = config.train;
  if (!options.valid_data || t.eval_interval == 0 || t.eval_iters == 0) return;
  const std::int64_t evaluations = ceil_div(total_steps, t.eval_interval);
  check(*options.valid_data, evaluations * evaluation_samples(), "validation");
  valid_data = options.valid_data;
}

void Trainer::Parts::open_data() {
  if (options.train_data) return open_own_data();
  DatasetBuilder builder(config, config.model.vocab_size, eod_id);
  if (leads()) builder.write_places();
  const SampleCounts counts = sample_counts(config, ordered_steps, rank.size);
  train_data = builder.build(Split::train, counts.train);
  if (!train_data) fail_input("the training split is empty: check data.split and data.path");
  // The batch size may have changed, or the last step may exceed train.samples.
  if (const std::int64_t taken = samples_to_consume(); train_data->size() < taken)
    train_data = builder.build(Split::train, taken);
  if (config.train.eval_interval > 0 && config.train.eval_iters > 0) {
    valid_data = builder.build(Split::valid, counts.valid);
  } else {
    builder.check_files(Split::valid);
  }
  builder.check_files(Split::test);
  for (const std::string& note : builder.notes()) console.print("note: " + note);
}

void Trainer::Parts::check_ranks_agree() {
  if (rank.size == 1) return;
  const Device& device = device_of(config.run.device);
  std::string problem;
  const CollectiveTable* const library = device.collectives(problem);
  check_agreement(transport->world(),
                  {{"version", hash64(TRIREME_VERSION)},
                   {"configuration", hash64(to_toml(config))},
                   {"training data", train_data->order_key()},
                   {"device", hash64(device.signature())},
                   {"library of collectives", hash64(library ? library->name() : "none")},
                   {"number of steps", static_cast<std::uint64_t>(total_steps)}});
  check_devices_differ(device, transport->place(), transport->world());
  if (device.target().device != DeviceKind::cpu && !library) {
    console.warn(fmt::format("collectives go through host memory, which is slow: {}", problem));
  }
}

void Trainer::Parts::check_graphs_agree() {
  for (const auto* group :
       {&engine.groups().tensor, &engine.groups().context, &engine.groups().kv,
        &engine.groups().shard, &engine.groups().replicate, &engine.groups().expert}) {
    if (*group && (*group)->size() > 1)
      check_agreement((*group)->on_host(), {{"graph layout", engine.layout_hash()}});
  }
}

void Trainer::Parts::begin() {
  make_folders(config.run.dir);
  std::string killed;
  if (leads()) {
    folder.lock();
    killed = folder.killed_start();
  }
  // Precedes the creation of groups, which depend on the configuration.
  check_ranks_agree();
  // From here on the folder belongs to this run, whichever rank ends the job.
  if (transport) {
    transport->set_last_output(
        [dir = folder.path()](const LastMessage& message) { mark_failed(dir, message.text); });
  }
  start_up.done("ranks agree on what they do");
  const Device& device = device_of(config.run.device);
  const std::int64_t before = device.allocated(), on_host = device.allocated_host();
  engine.allocate(transport);
  check_graphs_agree();
  TRIREME_CHECK(device.allocated() - before == engine.memory().total());
  TRIREME_CHECK(device.allocated_host() - on_host == engine.stored(OffloadPlace::host).total());
  start_up.done("memory allocated");

  if (leads()) console.keep_in(folder.path() / "log.txt");
  if (!killed.empty()) console.print(fmt::format("note: {}", killed));
  const bool loaded = checkpoints.load(*this);
  if (!loaded) engine.initialize();
  adjust_to_batch();
  start_up.done(loaded ? "checkpoint loaded" : "weights initialized");
  agree_on_algorithms();
  if (leads()) {
    folder.open(config, step);
    exports.open(checkpoints.saved_step(), total_steps);
    write_status("running", "");
  }
  progress.emplace(console, step, total_steps);
  open_loaders();
  start_up.done("folder and loaders opened");
  const OpenedFiles opened = opened_files();
  const SentMessages sent = transport ? transport->sent() : SentMessages{};
  console.debug(fmt::format(
      "start-up: this rank opened {} and read {}, joined {} and sent {} with "
      "{}",
      counted(opened.files, "file"), bytes_to_text(opened.bytes), counted(sent.groups, "group"),
      counted(sent.messages, "message"), bytes_to_text(sent.bytes)));
}

// A checkpoint's record has priority, so that a resumed run computes the same bits.
void Trainer::Parts::agree_on_algorithms() {
  const fs::path file = folder.path() / "tuning.json";
  Tuning::Record record{checkpoints.loaded_tuning(), "the checkpoint"};
  if (leads() && record.text.empty() && fs::exists(file)) record = {read_file(file), file.string()};
  Device& device = device_of(config.run.device);
  const std::string note = tuning.agree(device, transport, leads() ? record : Tuning::Record{});
  if (!note.empty()) console.print(fmt::format("note: {}", note));
  const std::string text = tuning.text(device);
  if (leads() && !text.empty()) write_file_durably(file, text);
}

LoaderConfig Trainer::Parts::loading() const {
  LoaderConfig loading;
  loading.dp_rank = engine.mesh().dp_index(rank.rank);
  loading.dp_size = engine.mesh().degrees().dp();
  loading.micro_batch_size = config.train.micro_batch_size;
  loading.prefetch = config.data.prefetch;
  return loading;
}

void Trainer::Parts::open_loaders() {
  LoaderConfig of_run = loading();
  if (valid_data) valid_loader.emplace(valid_data, of_run);
  of_run.consumed_samples = consumed_samples;
  if (step < total_steps) loader.emplace(train_data, of_run);
}

}  // namespace trireme
