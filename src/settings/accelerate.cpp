// accelerate's answers (`accelerate config`): machines, precision, and how ranks share the model.
#include <fmt/format.h>

#include "base/error.h"
#include "settings/reader.h"

namespace trireme::settings {
namespace {

void read_processes(Reader& reader) {
  const std::int64_t ranks = reader.count("num_processes").value_or(1);
  const std::int64_t nodes = reader.count("num_machines").value_or(1);
  if (nodes < 1) reader.refuse("num_machines", fmt::format("is {}, not a count", nodes));
  reader.result().nodes = nodes;
  if (ranks > 0) reader.result().ranks = ranks;  // -1: SLURM says it
  if (const auto environment = reader.text("compute_environment");
      environment && *environment != "LOCAL_MACHINE")
    reader.refuse("compute_environment",
                  fmt::format("is '{}', a service that starts containers; expected "
                              "LOCAL_MACHINE",
                              *environment));
}

// After a file of DeepSpeed's, which may say it too.
void read_precision(Reader& reader) {
  const std::string precision = reader.text("mixed_precision").value_or("");
  if (precision.empty()) {
    if (!reader.setting("run.precision"))
      reader.set_text("run.precision", "fp32", "mixed_precision is not there");
    return;
  }
  if (precision == "fp8")
    return reader.lose("mixed_precision",
                       "is fp8, of which the file says no recipe: give bf16 and fp8.recipe");
  if (precision != "no" && precision != "bf16" && precision != "fp16")
    reader.refuse("mixed_precision", fmt::format("is '{}', not no, fp16, bf16 or fp8", precision));
  reader.set_text("run.precision", precision == "no" ? "fp32" : precision, "mixed_precision");
}

// FSDP of the first kind has a strategy, the second whether parameters are given up after the
// forward pass; newer files write the strategy there as well.
std::int64_t stage_of_fsdp(Reader& reader) {
  const auto strategy = reader.text("fsdp_config.fsdp_sharding_strategy");
  const auto reshard = reader.has("fsdp_config.fsdp_reshard_after_forward")
                           ? reader.text("fsdp_config.fsdp_reshard_after_forward")
                           : std::nullopt;
  const std::string word = strategy ? *strategy : reshard.value_or("FULL_SHARD");
  if (word == "FULL_SHARD" || word == "HYBRID_SHARD" || word == "1" || word == "yes" ||
      word == "true") {
    if (word == "HYBRID_SHARD")
      reader.note(
          "fsdp_config.fsdp_sharding_strategy",
          "parameters are sharded within a node: set parallel.dp_replicate to the number of nodes");
    return 3;
  }
  if (word == "SHARD_GRAD_OP" || word == "HYBRID_SHARD_ZERO2" || word == "2" || word == "no" ||
      word == "false")
    return 2;
  if (word == "NO_SHARD" || word == "3") return 0;
  reader.refuse(
      "fsdp_config.fsdp_sharding_strategy",
      fmt::format("is '{}', not FULL_SHARD, SHARD_GRAD_OP, NO_SHARD or HYBRID_SHARD", word));
}

void read_fsdp(Reader& reader) {
  const std::int64_t stage = stage_of_fsdp(reader);
  reader.set("parallel.zero", stage, "fsdp_config");
  if (reader.flag("fsdp_config.fsdp_activation_checkpointing").value_or(false))
    reader.set_text("parallel.recompute", "full", "fsdp_config.fsdp_activation_checkpointing");
  if (reader.flag("fsdp_config.fsdp_offload_params").value_or(false)) {
    reader.set_text("offload.optimizer", "host", "fsdp_config.fsdp_offload_params");
    if (stage == 3)
      reader.set_text("offload.parameters", "host", "fsdp_config.fsdp_offload_params");
  }
  for (const char* name :
       {"auto_wrap_policy", "transformer_layer_cls_to_wrap", "min_num_params", "backward_prefetch",
        "backward_prefetch_policy", "forward_prefetch", "state_dict_type", "use_orig_params",
        "cpu_ram_efficient_loading", "sync_module_states", "version"})
    reader.ignore(fmt::format("fsdp_config.fsdp_{}", name));
}

// Megatron's degrees, under accelerate's names; with them Megatron's distributed optimizer is
// ZeRO 1.
void read_megatron(Reader& reader) {
  const auto key = [](const char* name) {
    return fmt::format("megatron_lm_config.megatron_lm_{}", name);
  };
  const auto degree = [&](const char* name, const char* ours) {
    if (const auto value = reader.count(key(name))) reader.set(ours, *value, key(name));
  };
  degree("tp_degree", "parallel.tp");
  degree("pp_degree", "parallel.pp");
  degree("context_parallel_size", "parallel.cp");
  degree("expert_model_parallel_size", "parallel.ep");
  if (reader.flag(key("sequence_parallelism")).value_or(false))
    reader.set("parallel.sequence_parallel", true, key("sequence_parallelism"));
  if (reader.flag(key("recompute_activations")).value_or(false))
    reader.set_text("parallel.recompute", "selective", key("recompute_activations"));
  if (const auto how = reader.text(key("recompute_granularity")))
    reader.set_text("parallel.recompute", *how == "full" ? "full" : "selective",
                    key("recompute_granularity"));
  reader.set("parallel.zero",
             std::int64_t{reader.flag(key("use_distributed_optimizer")).value_or(false)},
             key("use_distributed_optimizer"));
  reader.set("optimizer.clip_grad", reader.number(key("gradient_clipping")).value_or(1),
             key("gradient_clipping"));
  if (const auto share = reader.number(key("attention_dropout")))
    reader.set("model.attention_dropout", *share, key("attention_dropout"));
  if (const auto share = reader.number(key("hidden_dropout")))
    reader.set("model.hidden_dropout", *share, key("hidden_dropout"));
  if (const auto micro = reader.count(key("num_micro_batches")); micro && *micro != 1)
    reader.lose(
        key("num_micro_batches"),
        fmt::format("is {}; the global batch follows from it and the batch of the program: give "
                    "train.global_batch_size",
                    *micro));
}

void read_parallelism(Reader& reader) {
  const auto key = [](const char* name) {
    return fmt::format("parallelism_config.parallelism_config_{}", name);
  };
  const auto degree = [&](const char* name) { return reader.count(key(name)).value_or(1); };
  if (const std::int64_t tp = degree("tp_size"); tp > 1)
    reader.set("parallel.tp", tp, key("tp_size"));
  if (const std::int64_t cp = degree("cp_size"); cp > 1)
    reader.set("parallel.cp", cp, key("cp_size"));
  const std::int64_t copies = degree("dp_replicate_size"), shards = degree("dp_shard_size");
  if (copies > 1 && shards > 1)
    reader.set("parallel.dp_replicate", copies, key("dp_replicate_size"));
  if (const auto how = reader.text(key("cp_comm_strategy")))
    reader.set_text("parallel.cp_attention", *how == "alltoall" ? "ring" : "all_gather",
                    key("cp_comm_strategy"));
}

// DeepSpeed's own file, or the answers in its place.
void read_deepspeed_part(Reader& reader) {
  const auto key = [](const char* name) { return fmt::format("deepspeed_config.{}", name); };
  if (const auto file = reader.text(key("deepspeed_config_file"))) {
    const fs::path path = fs::path(reader.path()).parent_path() / *file;
    if (!fs::is_regular_file(path))
      reader.refuse(key("deepspeed_config_file"),
                    fmt::format("names '{}', which is not there", path.string()));
    const Json json = parse_settings(read_file(path, largest_settings_file), path);
    Reader inner(path.string(), json, reader.result());
    read_deepspeed(inner);
    inner.lose_others();
  } else {
    const std::int64_t stage = reader.count(key("zero_stage")).value_or(2);
    reader.set("parallel.zero", stage, key("zero_stage"));
    if (const auto clip = reader.number(key("gradient_clipping")))
      reader.set("optimizer.clip_grad", *clip, key("gradient_clipping"));
    if (const auto steps = reader.count(key("gradient_accumulation_steps")); steps && *steps != 1)
      reader.lose(
          key("gradient_accumulation_steps"),
          fmt::format("is {}; the global batch follows from it and the batch of the program: give "
                      "train.global_batch_size",
                      *steps));
    if (reader.text(key("offload_optimizer_device")).value_or("none") == "cpu")
      reader.set_text("offload.optimizer", "host", key("offload_optimizer_device"));
    if (const std::string device = reader.text(key("offload_param_device")).value_or("none");
        device == "cpu" && stage == 3)
      reader.set_text("offload.parameters", "host", key("offload_param_device"));
    else if (device == "cpu")
      reader.note(key("offload_param_device"), "DeepSpeed reads it with stage 3 alone");
    else if (device != "none")
      reader.lose(key("offload_param_device"),
                  fmt::format("is '{}', and a folder belongs to it: set offload.parameters = "
                              "\"file\" and offload.path",
                              device));
  }
  for (const char* name :
       {"zero3_init_flag", "zero3_save_16bit_model", "deepspeed_multinode_launcher",
        "deepspeed_hostfile", "deepspeed_inclusion_filter", "deepspeed_exclusion_filter"})
    reader.ignore(key(name));
}

}  // namespace

void read_accelerate(Reader& reader) {
  read_processes(reader);
  const std::string type = reader.text("distributed_type").value_or("NO");
  if (type == "DEEPSPEED") {
    read_deepspeed_part(reader);
  } else if (type == "FSDP") {
    read_fsdp(reader);
  } else if (type == "MEGATRON_LM") {
    read_megatron(reader);
  } else if (type == "NO" || type == "no" || type.starts_with("MULTI_")) {
    reader.set("parallel.zero", std::int64_t{0}, "distributed_type");
  } else {
    reader.refuse(
        "distributed_type",
        fmt::format("is '{}'; expected NO, MULTI_GPU, MULTI_CPU, DEEPSPEED, FSDP or MEGATRON_LM",
                    type));
  }
  read_precision(reader);
  read_parallelism(reader);
  // Of other kinds of distribution, and of the launcher.
  if (type != "DEEPSPEED") reader.ignore_section("deepspeed_config");
  if (type != "FSDP") reader.ignore_section("fsdp_config");
  if (type != "MEGATRON_LM") reader.ignore_section("megatron_lm_config");
  for (const char* section : {"mpirun_config", "dynamo_config", "tpu_env"})
    reader.ignore_section(section);
  reader.ignore({"compute_environment",
                 "debug",
                 "downcast_bf16",
                 "enable_cpu_affinity",
                 "gpu_ids",
                 "machine_rank",
                 "main_process_ip",
                 "main_process_port",
                 "main_training_function",
                 "rdzv_backend",
                 "same_network",
                 "use_cpu",
                 "tpu_name",
                 "tpu_zone",
                 "tpu_use_cluster",
                 "tpu_use_sudo",
                 "tpu_vm",
                 "commands",
                 "command_file",
                 "dynamo_backend"});
  reader.result().open =
      "the model, the data, the optimizer and the batch, which are in your program";
}

}  // namespace trireme::settings
