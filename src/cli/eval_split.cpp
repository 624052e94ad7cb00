// The datasets of a run, read as its training reads them.
#include "cli/eval_split.h"

#include <algorithm>
#include <cstring>

#include "base/divide.h"
#include "base/error.h"
#include "config/batch_sizes.h"
#include "data/dataset_builder.h"
#include "data/loader.h"
#include "model/batch_inputs.h"
#include "runtime/devices.h"
#include "train/batch_schedule.h"
#include "train/setup.h"

namespace trireme::cli {
namespace {

// Ranks of one data-parallel rank: the run's number of these is not part of its configuration.
std::int64_t ranks_of(const ParallelConfig& p) {
  return p.tp * p.pp * p.cp;
}

std::shared_ptr<const Dataset> open_split(const Config& config, std::int64_t eod_id, Split split,
                                          std::int64_t samples) {
  const std::int64_t ranks = ranks_of(config.parallel);
  const std::int64_t steps = config.train.iters > 0
                                 ? config.train.iters
                                 : BatchSchedule(config, ranks).steps(config.train.samples);
  const std::int64_t of_run = sample_counts(config, steps, ranks).of(split);
  DatasetBuilder builder(config, config.model.vocab_size, eod_id);
  auto data = builder.build(split, std::max(of_run, samples));
  if (!data) {
    fail_input(
        "the run has no data for {}: its configuration gives that split no share and no files",
        name_of(split));
  }
  return data;
}

}  // namespace

SplitLoss evaluate_split(TrainedModel& model, Split split, std::int64_t samples) {
  if (!model.config().data.tokenizer.empty()) model.tokenizer();  // finds its files
  Config config = model.config();
  const std::int64_t eod_id = resolve_vocabulary(config);
  const std::int64_t rows = config.train.micro_batch_size;
  if (samples == 0)
    samples = config.train.eval_iters * evaluation_batch_size(config, ranks_of(config.parallel));
  if (samples == 0) fail_input("the run has train.eval_iters = 0: say how many with --samples");
  samples = round_up(samples, rows);
  const auto data = open_split(config, eod_id, split, samples);

  const BuildOptions build = build_options(config);
  const std::unique_ptr<Stage> stage = model.build(build);
  Device& device = stage->device();
  MemoryBlock memory(device, sizeof(StepTotals), "totals of an evaluation");
  auto* const totals = memory.as<StepTotals>();
  device.queue().fill(totals, 0, sizeof(StepTotals));
  const std::span<const Loss> losses = losses_of(config.model);
  Loader loader(data, {.micro_batch_size = rows, .prefetch = config.data.prefetch});
  for (std::int64_t at = 0; at < samples; at += rows) {
    const Batch batch = loader.next();
    load_batch(*stage, 0, batch, build.context);
    stage->evaluate();
    add_losses(*stage, 0, losses, totals);
  }
  StepTotals read;
  device.read(totals, sizeof read,
              [&](const std::byte* host) { std::memcpy(&read, host, sizeof read); });
  SplitLoss result{.sum = {}, .samples = samples};
  for (std::size_t i = 0; i < losses.size(); ++i)
    result.sum.parts[i] = {read.losses[i].sum.value(), read.losses[i].count.value()};
  return result;
}

}  // namespace trireme::cli
