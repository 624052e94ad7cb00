// torchtitan's job files (TOML, until its configurations became Python in 2026): keys and defaults
// as in its torchtitan/config/job_config.py.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "settings/reader.h"

namespace trireme::settings {
namespace {

void read_model(Reader& reader) {
  const std::string name = reader.text("model.name").value_or("llama3");
  const std::string flavor = reader.text("model.flavor").value_or("debugmodel");
  const auto set = [&](const char* key, std::int64_t value) {
    reader.set(key, value, "model.flavor");
  };
  if (name == "llama3" && (flavor == "8B" || flavor == "70B" || flavor == "405B")) {
    const std::string preset = flavor == "8B"    ? "llama3-8b"
                               : flavor == "70B" ? "llama3-70b"
                                                 : "llama3-405b";
    reader.set_text("model.preset", preset, "model.flavor");
  } else if (name == "llama3" && flavor == "debugmodel") {
    reader.set_text("model.family", "llama", "model.name");
    set("model.num_layers", 6);
    set("model.hidden_size", 256);
    set("model.num_heads", 16);
    set("model.ffn_hidden_size", 768);
    reader.set("model.rope_base", 500000.0, "model.flavor");
  } else {
    reader.lose(
        "model.flavor",
        fmt::format("is '{}' of '{}': debugmodel, 8B, 70B and 405B of llama3 are known; give "
                    "[model] yourself",
                    flavor, name));
  }
  // Llama 3.1's, which torchtitan has in every flavor.
  reader.set_text("model.rope_scaling", "llama3", "model.name");
  reader.set("model.rope_scaling_factor", 8.0, "model.name");
  reader.set("model.rope_original_length", std::int64_t{8192}, "model.name");
  reader.note("model.rope_scaling",
              "is Llama 3.1's, as in torchtitan since 2025; before, positions were not scaled");
  const std::string folder = reader.text("model.hf_assets_path")
                                 .value_or(reader.text("model.tokenizer_path").value_or(""));
  if (!folder.empty()) {
    reader.set_text("data.tokenizer", "hf", "model.hf_assets_path");
    reader.set_text("data.tokenizer_model", folder + "/tokenizer.json", "model.hf_assets_path");
  }
  reader.set("model.seq_length", reader.count("training.seq_len").value_or(2048),
             "training.seq_len");
  if (reader.text("model.converters.0"))
    reader.lose(
        "model.converters",
        "ask for fp8 in recipes that are not ours: rowwise is not available, and tensorwise "
        "has one scale for a batch and includes the head; fp8.recipe has those that are");
}

// torchtitan's steps count from 1 in the warm-up, so that its first is lr / warmup: a warm-up that
// is one step shorter and begins there takes the same values. Its decay is Trireme's "wsd".
void read_schedule(Reader& reader) {
  const std::int64_t steps = reader.count("training.steps").value_or(10000);
  const std::int64_t total = reader.count("lr_scheduler.total_steps").value_or(steps);
  const std::int64_t warmup =
      std::min(reader.count("lr_scheduler.warmup_steps").value_or(200), total);
  const double lr = reader.number("optimizer.lr").value_or(8e-4);
  if (steps < 1 || total < 1 || warmup < 0)
    reader.refuse("training.steps", "and the steps of lr_scheduler must be above 0");
  std::int64_t decay = total - warmup;
  if (const auto ratio = reader.number("lr_scheduler.decay_ratio"))
    decay = std::min(
        decay, static_cast<std::int64_t>(std::nearbyint(*ratio * static_cast<double>(total))));
  const std::string kind = reader.text("lr_scheduler.decay_type").value_or("linear");
  if (kind != "linear" && kind != "sqrt" && kind != "cosine")
    reader.refuse("lr_scheduler.decay_type",
                  fmt::format("is '{}', not linear, sqrt or cosine", kind));
  reader.set("train.iters", steps, "training.steps");
  reader.set("optimizer.lr", lr, "optimizer.lr");
  if (warmup > 1) {
    reader.set("optimizer.warmup_iters", warmup - 1, "lr_scheduler.warmup_steps");
    reader.set("optimizer.warmup_init_lr", lr / static_cast<double>(warmup),
               "lr_scheduler.warmup_steps");
  }
  if (decay < 1) return reader.set_text("optimizer.decay_style", "constant", "lr_scheduler");
  reader.set_text("optimizer.decay_style", "wsd", "lr_scheduler");
  if (total != steps) reader.set("optimizer.decay_iters", total, "lr_scheduler.total_steps");
  reader.set("optimizer.wsd_decay_iters", decay, "lr_scheduler.decay_ratio");
  reader.set_text("optimizer.wsd_decay_style", kind == "sqrt" ? "minus_sqrt" : kind,
                  "lr_scheduler.decay_type");
  reader.set("optimizer.min_lr", lr * reader.number("lr_scheduler.min_lr_factor").value_or(0),
             "lr_scheduler.min_lr_factor");
}

void read_optimizer(Reader& reader) {
  const std::string name = reader.text("optimizer.name").value_or("AdamW");
  if (name != "AdamW" && name != "Adam")
    reader.lose("optimizer.name", fmt::format("is '{}': Adam and AdamW are known", name));
  reader.set_text("optimizer.name", name == "Adam" ? "adam" : "adamw", "optimizer.name");
  reader.set("optimizer.beta1", reader.number("optimizer.beta1").value_or(0.9), "optimizer.beta1");
  reader.set("optimizer.beta2", reader.number("optimizer.beta2").value_or(0.95), "optimizer.beta2");
  reader.set("optimizer.eps", reader.number("optimizer.eps").value_or(1e-8), "optimizer.eps");
  reader.set("optimizer.weight_decay", reader.number("optimizer.weight_decay").value_or(0.1),
             "optimizer.weight_decay");
  reader.set("optimizer.decay_vectors", true, "one group of parameters");
  reader.set("optimizer.clip_grad", reader.number("training.max_norm").value_or(1),
             "training.max_norm");
  reader.ignore({"optimizer.implementation", "optimizer.early_step_in_backward"});
}

void read_pipeline(Reader& reader, std::int64_t pp) {
  const std::string name = reader.text("parallelism.pipeline_parallel_schedule").value_or("1F1B");
  reader.ignore({"parallelism.pipeline_parallel_first_stage_less_layers",
                 "parallelism.pipeline_parallel_last_stage_less_layers"});
  if (pp == 1) return;
  static constexpr std::pair<const char*, const char*> known[] = {
      {"1F1B", "1f1b"},
      {"GPipe", "gpipe"},
      {"Interleaved1F1B", "interleaved"},
      {"ZBVZeroBubble", "zbv"}};
  const auto* row = std::find_if(std::begin(known), std::end(known),
                                 [&](const auto& k) { return name == k.first; });
  if (row == std::end(known)) {
    reader.note("parallelism.pipeline_parallel_schedule",
                fmt::format("is '{}': 1f1b takes its place, which changes no number", name));
    return;
  }
  reader.set_text("parallel.schedule", row->second, "parallelism.pipeline_parallel_schedule");
  if (name == "Interleaved1F1B")
    reader.set("parallel.virtual_stages", std::int64_t{2},
               "parallelism.pipeline_parallel_schedule");
}

// The degrees, and what follows from them: ranks, ZeRO and the batch.
void read_parallelism(Reader& reader, std::int64_t ranks) {
  const auto degree = [&](const char* name) {
    const std::string key = fmt::format("parallelism.{}", name);
    const std::int64_t value = reader.count(key).value_or(1);
    if (value < 1) reader.refuse(key, fmt::format("is {}, not a degree", value));
    return value;
  };
  const std::int64_t tp = degree("tensor_parallel_degree"), pp = degree("pipeline_parallel_degree"),
                     cp = degree("context_parallel_degree"), ep = degree("expert_parallel_degree"),
                     copies = degree("data_parallel_replicate_degree");
  std::int64_t shards = reader.count("parallelism.data_parallel_shard_degree").value_or(-1);
  const std::int64_t others = tp * pp * cp * copies;
  if (shards < 1 && ranks > 0) {
    if (ranks % others != 0)
      reader.refuse(
          "parallelism",
          fmt::format("has degrees of {} in all, which do not divide {} ranks", others, ranks));
    shards = ranks / others;
  }
  reader.result().ranks = shards > 0 ? others * shards : 0;
  if (ranks > 0 && reader.result().ranks != ranks)
    reader.refuse("parallelism", fmt::format("is for {} ranks, and --ranks says {}",
                                             reader.result().ranks, ranks));
  reader.set("parallel.tp", tp, "parallelism.tensor_parallel_degree");
  if (tp > 1) reader.set("parallel.sequence_parallel", true, "parallelism.tensor_parallel_degree");
  reader.set("parallel.pp", pp, "parallelism.pipeline_parallel_degree");
  reader.set("parallel.cp", cp, "parallelism.context_parallel_degree");
  if (cp > 1) {
    const auto rotate =
        reader.text("parallelism.context_parallel_rotate_method").value_or("allgather");
    reader.set_text("parallel.cp_attention", rotate == "alltoall" ? "ring" : "all_gather",
                    "parallelism.context_parallel_rotate_method");
  }
  if (ep > 1)
    reader.note("parallelism.expert_parallel_degree", "has no effect: the model has no experts");
  read_pipeline(reader, pp);
  const auto reshard = reader.text("parallelism.fsdp_reshard_after_forward").value_or("default");
  const bool keeps = reshard == "never" || (reshard == "default" && pp > 1);
  const std::int64_t zero = shards == 1 ? 0 : keeps ? 2 : 3;
  reader.set("parallel.zero", zero, "parallelism.data_parallel_shard_degree");
  if (reader.flag("training.enable_cpu_offload").value_or(false)) {
    reader.set_text("offload.optimizer", "host", "training.enable_cpu_offload");
    if (zero == 3) reader.set_text("offload.parameters", "host", "training.enable_cpu_offload");
  }
  if (copies > 1 && shards != 1)
    reader.set("parallel.dp_replicate", copies, "parallelism.data_parallel_replicate_degree");
  reader.ignore({"parallelism.disable_loss_parallel", "parallelism.enable_async_tensor_parallel",
                 "parallelism.context_parallel_load_balancer",
                 "parallelism.pipeline_parallel_expert_parallel_overlap",
                 "parallelism.expert_tensor_parallel_degree",
                 "parallelism.enable_compiled_autograd",
                 "parallelism.context_parallel_rotate_method"});

  const std::int64_t local =
      reader
          .count(reader.has("training.batch_size") ? "training.batch_size"
                                                   : "training.local_batch_size")
          .value_or(8);
  const std::int64_t micro =
      reader.count("parallelism.pipeline_parallel_microbatch_size").value_or(1);
  reader.set("train.micro_batch_size", pp > 1 ? micro : local, "training.local_batch_size");
  const std::int64_t global = reader.count("training.global_batch_size").value_or(-1);
  if (global > 0 || shards > 0)
    reader.set("train.global_batch_size", global > 0 ? global : local * copies * shards,
               "training.global_batch_size");
  else
    reader.lose("training.global_batch_size", "follows from the number of ranks: give --ranks N");
}

void read_precision(Reader& reader) {
  const bool narrow = reader.text("training.dtype").value_or("float32") == "bfloat16";
  const bool mixed =
      reader.text("training.mixed_precision_param").value_or("bfloat16") == "bfloat16";
  if (narrow) reader.lose("training.dtype", "is bfloat16: weights are kept in fp32 here");
  reader.set_text("run.precision", mixed ? "bf16" : "fp32", "training.mixed_precision_param");
  const std::string mode = reader.text("activation_checkpoint.mode").value_or("selective");
  reader.set_text("parallel.recompute", mode == "full" || mode == "none" ? mode : "selective",
                  "activation_checkpoint.mode");
  if (mode != "full" && mode != "none")
    reader.note("activation_checkpoint.mode",
                fmt::format("is '{}': attention is computed again here, which changes memory and "
                            "time but no number",
                            mode));
}

void read_checkpoint(Reader& reader) {
  if (reader.flag("checkpoint.enable")
          .value_or(reader.flag("checkpoint.enable_checkpoint").value_or(false))) {
    reader.set("checkpoint.interval", reader.count("checkpoint.interval").value_or(500),
               "checkpoint.interval");
    reader.set("checkpoint.keep", reader.count("checkpoint.keep_latest_k").value_or(10),
               "checkpoint.keep_latest_k");
    reader.set("checkpoint.async",
               reader.text("checkpoint.async_mode").value_or("disabled") != "disabled",
               "checkpoint.async_mode");
    if (const auto from = reader.text("checkpoint.initial_load_path"))
      reader.lose(
          "checkpoint.initial_load_path",
          fmt::format("names '{}': bring it over with `trireme convert --from dcp`", *from));
  }
  reader.ignore_section("checkpoint");
}

}  // namespace

void read_torchtitan(Reader& reader, std::int64_t ranks) {
  read_model(reader);
  read_schedule(reader);
  read_optimizer(reader);
  read_parallelism(reader, ranks);
  read_precision(reader);
  read_checkpoint(reader);
  if (const auto folder = reader.text("job.dump_folder"))
    reader.set_text("run.dir", *folder, "job.dump_folder");
  const std::string seed = reader.has("debug.seed") ? "debug.seed" : "training.seed";
  if (const auto value = reader.count(seed)) reader.set("run.seed", *value, seed);
  reader.set("train.log_interval", reader.count("metrics.log_freq").value_or(10),
             "metrics.log_freq");
  reader.set("log.tensorboard", reader.flag("metrics.enable_tensorboard").value_or(false),
             "metrics.enable_tensorboard");
  if (const auto dataset = reader.text("training.dataset"))
    reader.note("training.dataset",
                fmt::format("is '{}': name its files in data.sources, or prepare them with "
                            "`trireme preprocess` and name them in data.path",
                            *dataset));
  if (reader.flag("validation.enable").value_or(false))
    reader.note("validation.enable", "give data.valid_path or data.split, and train.eval_interval");
  reader.note("weights", "begin with other random numbers than torchtitan's");
  reader.ignore({"training.dataset_path", "training.gc_freq", "training.gc_debug",
                 "training.compile", "training.mixed_precision_reduce", "training.deterministic",
                 "model.print_after_conversion", "model.norm_type", "model.converters"});
  for (const char* section : {"job", "profiling", "metrics", "compile", "comm", "memory_estimation",
                              "validation", "debug", "fault_tolerance", "experimental", "quantize",
                              "float8", "mx", "activation_checkpoint", "training.dataloader"})
    reader.ignore_section(section);
  reader.result().open = "data.sources or data.path";
}

}  // namespace trireme::settings
