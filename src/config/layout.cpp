// Checks parallelism degrees against the number of ranks, the model and the batch.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/counted.h"
#include "base/error.h"
#include "config/batch_sizes.h"
#include "config/config.h"
#include "config/divisors.h"
#include "config/exact_leaves.h"
#include "config/fp8.h"
#include "config/offload.h"
#include "config/run_rules.h"
#include "config/schedules.h"
#include "config/sequences.h"

namespace trireme {
namespace {

// GCD of the numbers of experts of all layers; 0 without experts.
std::int64_t common_experts(const ExpertConfig& moe) {
  std::int64_t common = moe.experts_by_layer.empty() ? moe.num_experts : 0;
  for (const std::int64_t number : moe.experts_by_layer) common = std::gcd(common, number);
  return common;
}

void check_degrees(const ModelConfig& model, const ParallelConfig& parallel,
                   std::int64_t world_size) {
  const std::int64_t needed =
      std::lcm(parallel.tp * parallel.cp, parallel.ep * parallel.expert_tp) * parallel.pp *
      parallel.dp_replicate;
  if (world_size == 1 && needed > 1) {
    fail_input(
        "parallel.tp = {}, pp = {}, cp = {}, ep = {}, expert_tp = {} and dp_replicate = {} require "
        "a multiple of {} processes, but only one was started: add --nproc {}, or start with "
        "mpirun -n {} or srun -n {}",
        parallel.tp, parallel.pp, parallel.cp, parallel.ep, parallel.expert_tp,
        parallel.dp_replicate, needed, needed, needed, needed);
  }
  if (world_size % parallel.tp != 0) {
    fail_input("parallel.tp = {} does not divide the {} ranks: tp can be {}", parallel.tp,
               world_size, divisors_near(world_size, parallel.tp));
  }
  const std::int64_t groups = world_size / parallel.tp;
  if (groups % parallel.pp != 0) {
    fail_input(
        "parallel.tp = {} times parallel.pp = {} does not divide the {} ranks: with this tp, "
        "pp can be {}",
        parallel.tp, parallel.pp, world_size, divisors_near(groups, parallel.pp));
  }
  const std::int64_t rest = groups / parallel.pp;
  if (rest % parallel.cp != 0) {
    fail_input(
        "parallel.tp = {} times pp = {} times cp = {} does not divide the {} ranks: with this "
        "tp and pp, cp can be {}",
        parallel.tp, parallel.pp, parallel.cp, world_size, divisors_near(rest, parallel.cp));
  }
  const std::int64_t dp = rest / parallel.cp;
  if (dp % parallel.dp_replicate != 0) {
    fail_input(
        "parallel.dp_replicate = {} does not divide the {} data-parallel ranks: it can be {}",
        parallel.dp_replicate, dp, divisors_near(dp, parallel.dp_replicate));
  }
  const std::int64_t shard = dp / parallel.dp_replicate * parallel.cp * parallel.tp;
  const std::string copies =
      parallel.dp_replicate > 1
          ? fmt::format(" in each of parallel.dp_replicate = {} copies", parallel.dp_replicate)
          : "";
  if (shard % parallel.expert_tp != 0) {
    fail_input(
        "parallel.expert_tp = {} does not divide the {} of a pipeline stage{}: expert_tp can "
        "be {}",
        parallel.expert_tp, counted(shard, "rank"), copies,
        divisors_near(std::gcd(shard, model.moe.ffn_hidden_size), parallel.expert_tp));
  }
  if (shard / parallel.expert_tp % parallel.ep != 0) {
    fail_input(
        "parallel.ep = {}{} does not divide the {} of a pipeline stage{}: ep can be {}",
        parallel.ep,
        parallel.expert_tp > 1 ? fmt::format(" times expert_tp = {}", parallel.expert_tp) : "",
        counted(shard, "rank"), copies,
        divisors_near(std::gcd(shard / parallel.expert_tp, common_experts(model.moe)),
                      parallel.ep));
  }
}

void check_tensor(const ModelConfig& model, const ParallelConfig& parallel) {
  const std::int64_t tp = parallel.tp;
  const auto check = [&](const char* name, std::int64_t size) {
    if (size % tp == 0) return;
    fail_input("model.{} = {} is not divisible by parallel.tp = {}: tp can be {}", name, size, tp,
               divisors_near(size, tp));
  };
  check("num_heads", model.num_heads);
  check("ffn_hidden_size", model.ffn_hidden_size);
  if (model.num_kv_heads % tp != 0 && tp % model.num_kv_heads != 0) {
    fail_input(
        "parallel.tp = {} neither divides model.num_kv_heads = {} nor is a multiple of it: each "
        "rank must have whole key and value heads with their queries, or each of them must be "
        "shared by an equal number of ranks; tp can be {}",
        tp, model.num_kv_heads,
        divisors_near(std::gcd(model.num_kv_heads, model.ffn_hidden_size), tp));
  }
  if (!model.linear_layers.empty()) check("linear_key_heads", model.linear_key_heads);
  if (!parallel.sequence_parallel || tp == 1) return;
  check("seq_length", model.seq_length);
}

// Sequence parallelism must split micro-batches of every length of the curriculum.
void check_lengths(const Config& config) {
  const CurriculumConfig& growth = config.curriculum;
  const std::int64_t tp = config.parallel.tp;
  if (growth.schedule == CurriculumSchedule::none || !config.parallel.sequence_parallel || tp == 1)
    return;
  for (const auto& [name, length] :
       {std::pair{"min_length", growth.min_length}, std::pair{"length_step", growth.length_step}}) {
    if (config.train.micro_batch_size * length % tp == 0) continue;
    fail_input(
        "parallel.sequence_parallel splits micro-batches of train.micro_batch_size x curriculum.{} "
        "= {} x {} positions into parallel.tp = {} equal parts: make curriculum.{} a multiple of "
        "{}",
        name, config.train.micro_batch_size, length, tp, name,
        tp / std::gcd(tp, config.train.micro_batch_size));
  }
}

// "the 8 stages of parallel.pp = 4 with schedule \"zbv\""
std::string stages_text(const ParallelConfig& parallel, std::int64_t stages) {
  if (parallel.pp == 1) return "one pipeline stage";
  return fmt::format("the {} stages of parallel.pp = {} with schedule {:?}", stages, parallel.pp,
                     parallel.schedule);
}

void check_stages(const ModelConfig& model, const ParallelConfig& parallel) {
  const ChunkRule rule = entry_of(parallel.schedule).chunks;
  if ((rule == ChunkRule::several) != (parallel.virtual_stages > 1)) {
    fail_input("parallel.virtual_stages = {} conflicts with parallel.schedule = {:?}: {}",
               parallel.virtual_stages, parallel.schedule,
               rule == ChunkRule::several ? "it requires 2 or more"
               : rule == ChunkRule::folded
                   ? "this schedule always has 2 on each rank, so remove the key"
                   : fmt::format("only {} supports more than 1",
                                 fmt::join(schedule_names(ChunkRule::several), " or ")));
  }
  const std::int64_t stages = parallel.pp * stages_per_rank(parallel);
  const std::string named = stages_text(parallel, stages);
  if (stages > model.num_layers) {
    fail_input("model.num_layers = {} is too few for {}: use fewer stages, such as {}",
               model.num_layers, named, divisors_near(model.num_layers, model.num_layers));
  }
  const auto& layers = parallel.stage_layers;
  if (layers.empty()) {
    if (model.num_layers % stages == 0) return;
    fail_input(
        "model.num_layers = {} is not divisible by {}: the number of stages can be {}, or set "
        "parallel.stage_layers",
        model.num_layers, named, divisors_near(model.num_layers, stages));
  }
  const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  const bool empty_stage = std::count(layers.begin(), layers.end(), 0) > 0;
  if (static_cast<std::int64_t>(layers.size()) != stages || sum != model.num_layers ||
      empty_stage) {
    fail_input(
        "parallel.stage_layers = [{}] describes {} and {}, but {} must have {} "
        "numbers of at least 1 that add up to model.num_layers = {}",
        fmt::join(layers, ", "), counted(layers.size(), "stage"), counted(sum, "layer"), named,
        stages, model.num_layers);
  }
}

void check_batch(const Config& config, std::int64_t world_size) {
  const TrainConfig& train = config.train;
  const std::int64_t dp = data_parallel_size(config.parallel, world_size);
  const std::int64_t unit = train.micro_batch_size * dp;
  const auto check = [&](const char* name, std::int64_t size) {
    if (size % unit == 0) return;
    fail_input(
        "{} = {} is not divisible by train.micro_batch_size = {} times {} data-parallel ranks: "
        "it can be {}{}",
        name, size, train.micro_batch_size, dp, multiples_near(size, unit),
        size % dp == 0 ? fmt::format(", or set train.micro_batch_size = {}",
                                     std::gcd(train.micro_batch_size, size / dp))
                       : "");
  };
  for (const BatchSizeFrom& from : batch_size_schedule(config))
    check("a size of train.batch_size_schedule", from.size);
  check("train.global_batch_size", global_batch_size(config, world_size));
  if (train.rampup_batch_size.size() == 3) {
    check("the first train.rampup_batch_size", train.rampup_batch_size[0]);
    check("the increment of train.rampup_batch_size", train.rampup_batch_size[1]);
  }
}

}  // namespace

std::int64_t stages_per_rank(const ParallelConfig& parallel) {
  if (parallel.pp == 1) return 1;
  const bool folded = entry_of(parallel.schedule).chunks == ChunkRule::folded;
  return folded ? 2 : parallel.virtual_stages;
}

std::int64_t data_parallel_size(const ParallelConfig& parallel, std::int64_t world_size) {
  return world_size / (parallel.tp * parallel.pp * parallel.cp);
}

void validate_layout(const Config& config, std::int64_t world_size) {
  check_degrees(config.model, config.parallel, world_size);
  check_tensor(config.model, config.parallel);
  check_lengths(config);
  check_sequences(config);
  check_exact_leaves(config);
  check_fp8_layout(config);
  check_stages(config.model, config.parallel);
  check_batch(config, world_size);
}

void check_run(const Config& config, std::int64_t world_size) {
  validate(config);
  validate_layout(config, world_size);
}

std::vector<std::string> layout_notes(const Config& config, std::int64_t world_size) {
  const ParallelConfig& p = config.parallel;
  const std::int64_t dp = data_parallel_size(p, world_size), shard = dp / p.dp_replicate;
  std::vector<std::string> notes;
  if (p.zero > 0 && shard == 1) {
    notes.push_back(fmt::format(
        "parallel.zero = {} has no effect: {}, so every rank keeps all states", p.zero,
        dp == 1 ? "there is only one data-parallel rank"
                : fmt::format("with parallel.dp_replicate = {} each shard group has only one rank",
                              p.dp_replicate)));
  }
  const std::int64_t micro_batches =
      global_batch_size(config, world_size) / (config.train.micro_batch_size * dp);
  if (p.pp > 1 && micro_batches < p.pp) {
    notes.push_back(fmt::format(
        "only {} per step for parallel.pp = {} stages: some stages are always idle; increase "
        "train.global_batch_size to use all of them",
        counted(micro_batches, "micro-batch"), p.pp));
  }
  if (p.sequence_parallel && p.tp == 1)
    notes.push_back("parallel.sequence_parallel has no effect with parallel.tp = 1");
  if (p.distribute_saved_activations && (p.tp == 1 || p.sequence_parallel)) {
    notes.push_back(fmt::format(
        "parallel.distribute_saved_activations has no effect with parallel.{}",
        p.tp == 1 ? "tp = 1"
                  : "sequence_parallel = true, which already splits the saved activations"));
  }
  for (const auto& [key, where] : {std::pair{"parameters", config.offload.parameters},
                                   {"activations", config.offload.activations}}) {
    if (where != OffloadPlace::host || config.run.device != DeviceKind::cpu) continue;
    notes.push_back(fmt::format(
        "offload.{} = \"host\" has no effect with run.device = \"cpu\", which computes in host "
        "memory; use \"file\" to offload to a disk",
        key));
  }
  // Three-layer windows replace the activations that one micro-batch would keep on the device.
  const std::int64_t some = config.offload.activation_layers;
  const std::int64_t layers = some > 0 ? some : config.model.num_layers;
  if (leaves_memory(config, config.offload.activations) && p.pp == 1 && layers <= 3) {
    notes.push_back(fmt::format(
        "offload.activations saves no memory with {} per stage, because as many stay in "
        "memory; use at least four layers, or pipeline parallelism",
        counted(layers, "layer")));
  }
  return notes;
}

}  // namespace trireme
