// Random samples, and the steps of one rank.
#include "compare/layout_run.h"

#include <algorithm>

#include "base/portable_math.h"
#include "base/random.h"
#include "comm/local.h"
#include "compare/step_observer.h"
#include "config/batch_sizes.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

enum Stream : std::uint64_t { token_stream, weight_stream, document_stream };

// Random tokens, some of which are not predicted, in documents if the model keeps these apart.
Batch random_samples(const Config& config, const BuildOptions& build, std::int64_t first) {
  const std::int64_t seq = config.model.seq_length;
  Batch batch(config.train.micro_batch_size, seq);
  const auto seed = static_cast<std::uint64_t>(config.run.seed);
  for (std::int64_t b = 0; b < batch.micro_batch_size; ++b) {
    const std::int64_t sample = first + b;
    batch.sample_ids[b] = sample;
    batch.order_labels[b] = static_cast<std::int32_t>(sample % 2);
    const auto token = [&](std::int64_t at) {
      const auto index = static_cast<std::uint64_t>(sample * (seq + 1) + at);
      return static_cast<std::int32_t>(uniform(seed, token_stream, index) *
                                       static_cast<double>(config.model.vocab_size));
    };
    std::int64_t document = 0;
    for (std::int64_t t = 0; t < seq; ++t) {
      const std::int64_t i = b * seq + t;
      const auto index = static_cast<std::uint64_t>(sample * seq + t);
      batch.tokens[i] = token(t);
      batch.targets[i] = token(t + 1);
      batch.loss_weights[i] = build.predictions > 0
                                  ? static_cast<float>(t < build.predictions)
                                  : static_cast<float>(uniform(seed, weight_stream, index) < 0.9);
      if (build.predictions > 0) batch.segments[i] = static_cast<std::int32_t>(2 * t >= seq);
      if (!build.packed_documents) continue;
      if (uniform(seed, document_stream, index) < 0.1) document = t;
      batch.first_visible[i] = static_cast<std::int32_t>(document);
    }
  }
  return batch;
}

// Loss scale that keeps the gradients of a small model in the range of fp16.
double loss_scale_of(const Config& config) {
  return config.run.precision == Precision::fp16 ? 1024 : 1;
}

}  // namespace

LayoutRun::LayoutRun(int ranks, int number_of_steps)
    : losses(static_cast<std::size_t>(number_of_steps)),
      norms(losses.size()),
      steps(losses.size(), std::vector<StepValues>(static_cast<std::size_t>(ranks))) {}

void run_rank(const Config& config, Transport& transport, LayoutRun& run,
              const std::function<void()>& before_step) {
  const int rank = transport.place().rank, size = transport.place().size;
  const math::Use numerics{config.parallel.numerics == Numerics::portable};
  const BuildOptions build = build_options(config);
  Engine engine(config, build, {.poison = true}, {rank, size});
  engine.allocate(&transport);
  engine.initialize();
  if (rank == 0) {
    run.mesh.emplace(engine.mesh());
    run.loss_scale = loss_scale_of(config);
  }
  const BatchRows rows(config, engine.mesh(), rank);
  StepObserver recorder(engine, rows);
  StepInput input;
  input.micro_batches = rows.samples / (rows.micro_batch * rows.dp);
  input.lr = config.optimizer.lr;
  input.clip_grad = config.optimizer.clip_grad;
  input.loss_scale = loss_scale_of(config);
  input.takes = [&](const StepResult&) {
    recorder.add_gradients();
    return true;
  };
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    input.step = step;
    if (before_step) before_step();
    recorder.begin_step(run.steps[step][static_cast<std::size_t>(rank)]);
    std::vector<Batch> batches;
    for (std::int64_t k = 0; k < input.micro_batches; ++k)
      batches.push_back(random_samples(config, build,
                                       static_cast<std::int64_t>(step) * rows.samples +
                                           (k * rows.dp + rows.dp_index) * rows.micro_batch));
    const StepResult result = engine.train_step(
        input, [&](std::int64_t k) { return &batches[static_cast<std::size_t>(k)]; }, &recorder);
    recorder.add_states(engine);
    if (rank > 0) continue;
    run.losses[step] = result.loss.mean();
    run.norms[step] = result.grad_norm;
  }
}

LayoutRun run_layout(const Config& config, int ranks, int steps) {
  LayoutRun run(ranks, steps);
  run_local_ranks(ranks, {.timeout_s = config.train.timeout_s},
                  [&](Transport& transport) { run_rank(config, transport, run); });
  return run;
}

std::int64_t bytes_of_layout(const Config& config, int ranks) {
  const math::Use numerics{config.parallel.numerics == Numerics::portable};
  const auto schedules = std::make_shared<PlannedSchedules>();
  std::int64_t bytes = 0;
  for (int rank = 0; rank < ranks; ++rank)
    bytes += Engine(config, build_options(config), {}, {rank, ranks}, schedules).memory().total();
  return bytes;
}

}  // namespace trireme
