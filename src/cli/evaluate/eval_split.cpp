// Opens the datasets of a run as its training reads them.
#include "cli/evaluate/eval_split.h"

#include <cstring>

#include "base/divide.h"
#include "base/error.h"
#include "config/batch_sizes.h"
#include "data/loader.h"
#include "model/batch_inputs.h"
#include "runtime/devices.h"
#include "train/run/setup.h"
#include "train/schedule/split_data.h"

namespace trireme::cli {

SplitLoss evaluate_split(TrainedModel& model, Split split, std::int64_t samples) {
  if (!model.config().data.tokenizer.empty()) model.tokenizer();  // locates its files
  Config config = model.config();
  const std::int64_t eod_id = resolve_vocabulary(config);
  const std::int64_t rows = config.train.micro_batch_size;
  if (samples == 0)
    samples =
        config.train.eval_iters * evaluation_batch_size(config, fewest_ranks_of(config.parallel));
  if (samples == 0)
    fail_input("the run has train.eval_iters = 0: set the number of samples with --samples");
  samples = round_up(samples, rows);
  const auto data = open_split(config, eod_id, split, samples, fewest_ranks_of(config.parallel));

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
    add_losses(*stage, 0, config.model, false, totals);
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
