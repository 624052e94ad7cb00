// Reads accelerate's parallelism degrees, for Megatron and for PyTorch device meshes.
#include <fmt/format.h>

#include <algorithm>

#include "importers/settings/accelerate.h"

namespace trireme::settings {
namespace {

std::string of_megatron(const char* name) {
  return fmt::format("megatron_lm_config.megatron_lm_{}", name);
}

std::string of_mesh(const char* name) {
  return fmt::format("parallelism_config.parallelism_config_{}", name);
}

std::int64_t size_of(Reader& reader, const std::string& key) {
  const std::int64_t size = reader.count(key).value_or(1);
  if (size < 1) reader.refuse(key, fmt::format("is {}, not a degree", size));
  return size;
}

void read_degrees_of_megatron(Reader& reader) {
  std::int64_t all = 1;
  std::string words;
  for (const auto& [name, ours] : {std::pair{"tp_degree", "parallel.tp"},
                                   {"pp_degree", "parallel.pp"},
                                   {"context_parallel_size", "parallel.cp"}}) {
    const std::int64_t size = size_of(reader, of_megatron(name));
    all *= size;
    words += fmt::format("{}megatron_lm_{} {}", words.empty() ? "" : " x ", name, size);
    if (reader.has(of_megatron(name))) reader.set(ours, size, of_megatron(name));
  }
  if (!reader.has(of_megatron("context_parallel_size")))
    reader.note(of_megatron("context_parallel_size"),
                "is not set: 1, as documented by accelerate; the code of accelerate 1.15 uses 2");
  if (const std::int64_t ranks = reader.result().ranks; ranks % all != 0)
    reader.refuse("num_processes",
                  fmt::format("is {}, which is not a multiple of {} = {}", ranks, words, all));
  for (const auto& [name, ours] : {std::pair{"expert_model_parallel_size", "parallel.ep"},
                                   {"expert_tensor_parallel_size", "parallel.expert_tp"}})
    if (reader.has(of_megatron(name)))
      reader.set(ours, size_of(reader, of_megatron(name)), of_megatron(name));
}

void read_recomputation(Reader& reader) {
  const std::string key = of_megatron("recompute_granularity");
  const auto how = reader.text(key);
  if (how && *how != "full" && *how != "selective")
    reader.refuse(key, fmt::format("is '{}', not full or selective", *how));
  const bool selective = reader.flag(of_megatron("recompute_activations")).value_or(false);
  if (how)
    reader.set_text("parallel.recompute", *how, key);
  else if (selective)
    reader.set_text("parallel.recompute", "selective", of_megatron("recompute_activations"));
}

}  // namespace

// Megatron's distributed optimizer corresponds to ZeRO-1.
void read_accelerate_megatron(Reader& reader) {
  const auto is_on = [&](const char* name) {
    return reader.flag(of_megatron(name)).value_or(false);
  };
  read_degrees_of_megatron(reader);
  read_recomputation(reader);
  if (is_on("sequence_parallelism"))
    reader.set("parallel.sequence_parallel", true, of_megatron("sequence_parallelism"));
  reader.set("parallel.zero", std::int64_t{is_on("use_distributed_optimizer")},
             of_megatron("use_distributed_optimizer"));
  reader.set("optimizer.clip_grad", reader.number(of_megatron("gradient_clipping")).value_or(1),
             of_megatron("gradient_clipping"));
  if (const auto steps = reader.count(of_megatron("learning_rate_decay_iters")))
    reader.set("optimizer.decay_iters", *steps, of_megatron("learning_rate_decay_iters"));
  for (const auto& [name, ours] : {std::pair{"attention_dropout", "model.attention_dropout"},
                                   {"hidden_dropout", "model.hidden_dropout"}})
    if (const auto share = reader.number(of_megatron(name)))
      reader.set(ours, *share, of_megatron(name));
  if (const auto eod = reader.flag(of_megatron("eod_mask_loss")))
    reader.set("data.eod_mask_loss", *eod, of_megatron("eod_mask_loss"));
  if (const auto rotary = reader.flag(of_megatron("use_rotary_position_embeddings"));
      rotary && *rotary)
    reader.set_text("model.position", "rope", of_megatron("use_rotary_position_embeddings"));
  if (is_on("optimizer_cpu_offload"))
    reader.set_text("offload.optimizer", "host", of_megatron("optimizer_cpu_offload"));
  const std::string micro = of_megatron("num_micro_batches");
  if (const auto count = reader.count(micro)) {
    if (*count < 1) reader.refuse(micro, fmt::format("is {}, not above 0", *count));
    leave_batch_open(reader, micro, *count);
  }
}

namespace {

// DeepSpeed's sequence parallelism is context parallelism by all-to-all over heads (Ulysses).
void read_sequence(Reader& reader, std::int64_t cp, std::int64_t sp) {
  const std::string how = of_mesh("cp_comm_strategy");
  const std::string strategy = lowered(reader.text(how).value_or("allgather"));
  if (strategy != "allgather" && strategy != "alltoall")
    reader.refuse(how, fmt::format("is '{}', not allgather or alltoall", strategy));
  for (const auto& [name, only] : {std::pair{"cp_backend", "torch"}, {"sp_backend", "deepspeed"}}) {
    const std::string backend = reader.text(of_mesh(name)).value_or(only);
    if (backend != only)
      reader.refuse(of_mesh(name),
                    fmt::format("is '{}', but accelerate supports {}", backend, only));
  }
  if (cp > 1 && sp > 1)
    reader.refuse(of_mesh("sp_size"), fmt::format("is {} and {} is {}: one of them must be 1", sp,
                                                  of_mesh("cp_size"), cp));
  if (cp > 1) reader.set("parallel.cp", cp, of_mesh("cp_size"));
  if (cp > 1)
    reader.set_text("parallel.cp_attention", strategy == "alltoall" ? "ring" : "all_gather", how);
  if (sp > 1) reader.set("parallel.cp", sp, of_mesh("sp_size"));
  if (sp > 1) reader.set_text("parallel.cp_attention", "ulysses", of_mesh("sp_size"));
}

}  // namespace

void read_accelerate_parallelism(Reader& reader) {
  const std::int64_t tp = size_of(reader, of_mesh("tp_size")),
                     cp = size_of(reader, of_mesh("cp_size")),
                     sp = size_of(reader, of_mesh("sp_size")),
                     copies = size_of(reader, of_mesh("dp_replicate_size")),
                     shards = size_of(reader, of_mesh("dp_shard_size"));
  const std::int64_t all = tp * cp * sp * copies * shards, ranks = reader.result().ranks;
  if (tp > 1) reader.set("parallel.tp", tp, of_mesh("tp_size"));
  read_sequence(reader, cp, sp);
  if (copies > 1 && shards == 1 && (tp > 1 || cp > 1))
    reader.refuse(
        of_mesh("dp_replicate_size"),
        fmt::format("is {} with a dp_shard_size of 1, which accelerate rejects with tp_size {} "
                    "and cp_size {}",
                    copies, tp, cp));
  if (copies > 1 && shards > 1)
    reader.set("parallel.dp_replicate", copies, of_mesh("dp_replicate_size"));
  else  // derived from the number of ranks
    for (const char* name : {"dp_replicate_size", "dp_shard_size"}) reader.pass(of_mesh(name));
  const bool wrong = sp > 1 ? ranks % sp != 0 : ranks > 0 && ranks != all;
  if (all > 1 && wrong)
    reader.refuse(
        "parallelism_config",
        fmt::format(
            "has a total size of {} (dp_replicate {} x dp_shard {} x tp {} x cp {} x sp {}), but "
            "num_processes is {}",
            all, copies, shards, tp, cp, sp, ranks));
}

}  // namespace trireme::settings
