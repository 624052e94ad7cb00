// Converts and validates the configuration.
#include "train/run/setup.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "checkpoint/foreign.h"
#include "checkpoint/layout.h"
#include "config/families.h"
#include "config/run_rules.h"
#include "data/batch.h"
#include "data/configured_tokenizer.h"
#include "tokenizer/capped_tokenizer.h"
#include "train/vocabulary.h"

namespace trireme {
namespace {

// Bytes of this rank's copy of its checkpoint part, if checkpoints are written during training.
std::int64_t checkpoint_copy_bytes(const Engine& engine, const Config& config) {
  if (!config.checkpoint.async) return 0;
  std::int64_t bytes = 0;
  for (int c = 0; c < engine.chunks(); ++c) {
    const Optimizer& optimizer = engine.optimizer(c);
    for (const OwnedSlice& slice : optimizer.layout().owned()) {
      const ParameterSpec& spec = engine.stage(c).definition().parameters[slice.parameter].spec;
      const std::int64_t count = std::min(slice.end, spec.owned_count()) - slice.begin;
      if (engine.owns(c, spec) && count > 0)
        bytes += count * (size_of(optimizer.dtype()) +
                          optimizer.moments(slice.parameter) * size_of(optimizer.moment_dtype()));
    }
  }
  return bytes;
}

}  // namespace

BuildOptions build_options(const Config& config) {
  BuildOptions build;
  build.compute = compute_dtype(config.run.precision);
  build.batch = config.train.micro_batch_size;
  build.context.attention = config.parallel.cp_attention;
  build.exact_block = config.parallel.exact_block;
  build.fp8 = config.fp8;
  build.packed_documents = config.data.reset_attention_mask;
  if (family_of(config.model).samples == SampleKind::masked_words) {
    // Upper bound on the share of masked tokens in a sample.
    build.predictions = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(
               std::ceil(config.data.mask_prob * static_cast<double>(config.model.seq_length))));
  }
  build.device = config.run.device;
  build.reports_scores = config.optimizer.qk_clip_threshold > 0;
  build.recompute = config.parallel.recompute;
  build.recompute_layers = config.parallel.recompute_layers;
  return build;
}

void refuse_foreign_folders(const Config& config) {
  const fs::path run = config.run.dir;
  if (!saved_steps(run / "checkpoints").empty()) return;  // resumes from its own checkpoint
  const auto refuse = [](const char* key, const fs::path& path, const std::string& foreign) {
    if (!foreign.empty()) fail_input("{} = '{}': {}", key, path.string(), foreign);
  };
  const std::string& load = config.checkpoint.load;
  if (!load.empty() && !find_checkpoint(load))
    refuse("checkpoint.load", load, describe_foreign(load));
  refuse("run.dir", run, describe_foreign_run(run));
}

void check_start(const Config& config, std::int64_t ranks) {
  check_run(config, ranks);
  refuse_foreign_folders(config);
}

std::int64_t resolve_vocabulary(Config& config) {
  std::string note;
  return resolve_vocabulary(config, note);
}

std::int64_t resolve_vocabulary(Config& config, std::string& note) {
  if (config.data.tokenizer.empty()) {
    if (config.model.vocab_size == 0) {
      fail_input(
          "model.vocab_size is not set, and data.tokenizer is not set either: set one of them");
    }
    return -1;
  }
  const auto tokenizer = make_tokenizer(config);
  if (config.model.vocab_size == 0) config.model.vocab_size = tokenizer->vocab_size();
  if (config.model.vocab_size < tokenizer->vocab_size()) {
    fail_input(
        "model.vocab_size is {}, but the tokenizer has {}: remove model.vocab_size or "
        "increase it",
        config.model.vocab_size, counted(tokenizer->vocab_size(), "token"));
  }
  note = tokenizer_note(*tokenizer);
  return tokenizer->eod_id();
}

MemoryPlan planned_memory(const Engine& engine, const Config& config) {
  MemoryPlan plan = engine.memory();
  const bool on_cpu = config.run.device == DeviceKind::cpu;
  plan.add("copy for checkpoints", on_cpu ? checkpoint_copy_bytes(engine, config) : 0);
  return plan;
}

StoredBytes planned_on_host(const Engine& engine, const Config& config) {
  StoredBytes bytes = engine.stored(OffloadPlace::host);
  if (config.run.device != DeviceKind::cpu) bytes.copies = checkpoint_copy_bytes(engine, config);
  return bytes;
}

namespace {

constexpr std::int64_t mib = 1 << 20;

// Estimates, since neither is documented or measured for this program: reportedly a context with
// kernel code takes half a GiB, and an NCCL communicator over all ranks one GiB, with 8 to 32
// channels of up to 8 MiB per neighbor.
MemoryPlan held_by_gpu(DeviceKind device, bool has_peers) {
  MemoryPlan plan;
  plan.add("context of the driver", 512 * mib);
  plan.add("workspaces of libraries", 32 * mib);
  if (has_peers)
    plan.add(device == DeviceKind::hip ? "buffers of RCCL" : "buffers of NCCL", 1024 * mib);
  return plan;
}

MemoryPlan held_by_process(const Engine& engine, const Config& config, int threads) {
  MemoryPlan plan;
  // Attention, and packing for matrix units: 4 MiB each. The rest is stack.
  plan.add(fmt::format("scratch of {} threads", threads), threads * 9 * mib);

  // Prefetched batches, and the micro-batches of a step, which are kept until its end. Evaluation
  // prefetches too.
  const std::int64_t batch = Batch::bytes(config.train.micro_batch_size, config.model.seq_length);
  const int dp = engine.mesh().degrees().dp();
  const std::int64_t step =
      global_batch_size(config, engine.mesh().size()) / (config.train.micro_batch_size * dp);
  plan.add("batches in memory", (step + 2 * config.data.prefetch + 1) * batch);

  // Each pending reduction stages at most 8 segments of 256 KiB and a sum in double.
  if (engine.mesh().size() > 1) plan.add("staging of messages", 4 * 4 * mib);

  // Estimate of the program, its libraries and MPI's mappings.
  plan.add("program and libraries", (engine.mesh().size() > 1 ? 160 : 96) * mib);
  return plan;
}

}  // namespace

MemoryBesides memory_besides(const Engine& engine, const Config& config, int threads) {
  const DeviceKind device = config.run.device;
  MemoryPlan process = held_by_process(engine, config, threads);
  if (device == DeviceKind::cpu) return {std::move(process), {}};
  MemoryPlan gpu;
  if (device != DeviceKind::emulated) gpu = held_by_gpu(device, engine.mesh().size() > 1);
  return {std::move(gpu), std::move(process)};
}

}  // namespace trireme
