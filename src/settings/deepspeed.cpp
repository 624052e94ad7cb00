// DeepSpeed's configuration (https://www.deepspeed.ai/docs/config-json): precision, batches, ZeRO,
// the optimizer.
#include <fmt/format.h>

#include <cmath>

#include "settings/reader.h"

namespace trireme::settings {
namespace {

void read_precision(Reader& reader) {
  const bool fp16 = reader.flag("fp16.enabled").value_or(false);
  const bool bf16 = reader.flag("bf16.enabled").value_or(false) ||
                    reader.flag("bfloat16.enabled").value_or(false);
  if (fp16 && bf16)
    reader.refuse("fp16.enabled", "and bf16.enabled are both true: one of them can be");
  if (fp16 || bf16) {
    reader.set_text("run.precision", fp16 ? "fp16" : "bf16",
                    fp16 ? "fp16.enabled" : "bf16.enabled");
  } else if (reader.result().system == System::accelerate) {
    // accelerate fills in its own answer.
  } else if (reader.is_auto("fp16.enabled") || reader.is_auto("bf16.enabled")) {
    reader.note("bf16.enabled",
                "is 'auto', which the program fills in: run.precision has to be given");
  } else {
    reader.set_text("run.precision", "fp32", "neither fp16 nor bf16");
  }
  if (!fp16) {
    reader.ignore({"fp16.loss_scale", "fp16.initial_scale_power", "fp16.loss_scale_window",
                   "fp16.hysteresis", "fp16.min_loss_scale", "fp16.consecutive_hysteresis"});
    return;
  }
  reader.set("optimizer.loss_scale", reader.number("fp16.loss_scale").value_or(0),
             "fp16.loss_scale");
  const double power = reader.number("fp16.initial_scale_power").value_or(16);
  if (power < 0 || power > 64) reader.refuse("fp16.initial_scale_power", "is not from 0 to 64");
  reader.set("optimizer.initial_loss_scale", std::exp2(power), "fp16.initial_scale_power");
  reader.set("optimizer.loss_scale_window", reader.count("fp16.loss_scale_window").value_or(1000),
             "fp16.loss_scale_window");
  reader.set("optimizer.hysteresis", reader.count("fp16.hysteresis").value_or(2),
             "fp16.hysteresis");
  reader.set("optimizer.min_loss_scale", reader.number("fp16.min_loss_scale").value_or(1),
             "fp16.min_loss_scale");
  if (reader.flag("fp16.consecutive_hysteresis").value_or(false))
    reader.lose("fp16.consecutive_hysteresis",
                "the hysteresis is counted anew after each doubling only");
}

void read_batches(Reader& reader) {
  if (const auto micro = reader.count("train_micro_batch_size_per_gpu"))
    reader.set("train.micro_batch_size", *micro, "train_micro_batch_size_per_gpu");
  const auto global = reader.count("train_batch_size");
  if (global) reader.set("train.global_batch_size", *global, "train_batch_size");
  const auto steps = reader.count("gradient_accumulation_steps");
  if (steps && *steps != 1 && !global)
    reader.lose("gradient_accumulation_steps",
                fmt::format("is {}; the global batch follows from it and the number of ranks: give "
                            "train.global_batch_size",
                            *steps));
  const auto clip = reader.number("gradient_clipping");
  if (!clip)
    reader.note("gradient_clipping",
                "is not there: 1.0, DeepSpeed's default; older versions did not clip");
  reader.set("optimizer.clip_grad", clip.value_or(1), "gradient_clipping");
}

// What is moved, to where. One folder takes all files.
void read_offload(Reader& reader, std::int64_t stage) {
  std::string folder;
  for (const auto& [what, ours] :
       {std::pair<std::string, std::string>{"offload_optimizer", "offload.optimizer"},
        {"offload_param", "offload.parameters"}}) {
    const std::string section = "zero_optimization." + what;
    const std::string device = reader.text(section + ".device").value_or("none");
    const auto path = reader.text(section + ".nvme_path");
    for (const char* key :
         {"pin_memory", "buffer_count", "buffer_size", "fast_init", "max_in_cpu", "ratio"})
      reader.ignore(fmt::format("{}.{}", section, key));
    if (device == "none") continue;
    if (what == "offload_param" && stage != 3) {
      reader.refuse(section + ".device",
                    fmt::format("is '{}', which DeepSpeed reads with stage 3 alone", device));
    } else if (device == "nvme" && path) {
      if (!folder.empty() && folder != *path)
        reader.lose(section + ".nvme_path",
                    fmt::format("is '{}', and all files go to one folder, '{}'", *path, folder));
      if (folder.empty()) folder = *path;
      reader.set_text(ours, "file", section + ".device");
      reader.set_text("offload.path", folder, section + ".nvme_path");
    } else if (device == "cpu") {
      reader.set_text(ours, "host", section + ".device");
    } else {
      reader.refuse(section + ".device",
                    fmt::format("is '{}', not none, cpu or nvme with a path", device));
    }
  }
}

// Of layers that the program recomputes: the file does not say which.
void read_checkpointing(Reader& reader) {
  const std::string section = "activation_checkpointing.";
  for (const char* key : {"contiguous_memory_optimization", "number_checkpoints",
                          "synchronize_checkpoint_boundary", "profile"})
    reader.ignore(section + key);
  if (reader.flag(section + "partition_activations").value_or(false)) {
    reader.set_text("parallel.recompute", "full", section + "partition_activations");
    reader.set("parallel.distribute_saved_activations", true, section + "partition_activations");
  }
  if (reader.flag(section + "cpu_checkpointing").value_or(false))
    reader.set_text("offload.activations", "host", section + "cpu_checkpointing");
}

void read_zero(Reader& reader) {
  const std::int64_t stage = reader.count("zero_optimization.stage").value_or(0);
  if (stage < 0 || stage > 3) reader.refuse("zero_optimization.stage", "is not from 0 to 3");
  reader.set("parallel.zero", stage, "zero_optimization.stage");
  read_offload(reader, stage);
  for (const char* key :
       {"allgather_partitions", "allgather_bucket_size", "overlap_comm", "reduce_scatter",
        "reduce_bucket_size", "contiguous_gradients", "round_robin_gradients", "sub_group_size",
        "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold",
        "stage3_max_live_parameters", "stage3_max_reuse_distance",
        "stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save",
        "elastic_checkpoint", "load_from_fp32_weights", "ignore_unused_parameters",
        "use_multi_rank_bucket_allreduce", "cpu_offload"})
    reader.ignore(fmt::format("zero_optimization.{}", key));
  if (reader.flag("zero_optimization.cpu_offload").value_or(false))
    reader.set_text("offload.optimizer", "host", "zero_optimization.cpu_offload");
}

// Nothing of it is set without a type: the user's program has an optimizer of its own then.
void read_optimizer(Reader& reader) {
  const auto type = reader.text("optimizer.type");
  if (!type) return;
  const bool adam = *type == "Adam" || *type == "AdamW" || *type == "FusedAdam";
  if (!adam)
    return reader.lose("optimizer.type", fmt::format("is '{}': Adam and AdamW are known", *type));
  // DeepSpeed's Adam decays as AdamW does unless it is told not to.
  const bool decoupled =
      *type == "AdamW" || reader.flag("optimizer.params.adam_w_mode").value_or(true);
  reader.ignore({"optimizer.params.adam_w_mode", "optimizer.params.torch_adam"});
  reader.set_text("optimizer.name", decoupled ? "adamw" : "adam", "optimizer.type");
  if (const auto lr = reader.number("optimizer.params.lr"))
    reader.set("optimizer.lr", *lr, "optimizer.params.lr");
  reader.set("optimizer.beta1", reader.number("optimizer.params.betas.0").value_or(0.9),
             "optimizer.params.betas");
  reader.set("optimizer.beta2", reader.number("optimizer.params.betas.1").value_or(0.999),
             "optimizer.params.betas");
  reader.ignore("optimizer.params.betas");
  reader.set("optimizer.eps", reader.number("optimizer.params.eps").value_or(1e-8),
             "optimizer.params.eps");
  reader.set("optimizer.weight_decay", reader.number("optimizer.params.weight_decay").value_or(0),
             "optimizer.params.weight_decay");
  reader.set("optimizer.decay_vectors", true, "one group of parameters");
}

// WarmupLR and WarmupDecayLR; the former two warm up by a logarithm unless told otherwise.
void read_scheduler(Reader& reader) {
  const auto type = reader.text("scheduler.type");
  if (!type) return;
  if (*type != "WarmupLR" && *type != "WarmupDecayLR")
    return reader.lose("scheduler.type",
                       fmt::format("is '{}': WarmupLR and WarmupDecayLR are known", *type));
  const std::string kind = reader.text("scheduler.params.warmup_type").value_or("log");
  if (kind != "linear")
    reader.lose("scheduler.params.warmup_type", fmt::format("is '{}': a warm-up is linear", kind));
  const auto lowest = reader.number("scheduler.params.warmup_min_lr");
  if (lowest) reader.set("optimizer.warmup_init_lr", *lowest, "scheduler.params.warmup_min_lr");
  if (const auto lr = reader.number("scheduler.params.warmup_max_lr"))
    reader.set("optimizer.lr", *lr, "scheduler.params.warmup_max_lr");
  reader.set("optimizer.warmup_iters",
             reader.count("scheduler.params.warmup_num_steps").value_or(1000),
             "scheduler.params.warmup_num_steps");
  if (*type == "WarmupLR")
    return reader.set_text("optimizer.decay_style", "constant", "scheduler.type");
  reader.set_text("optimizer.decay_style", "linear", "scheduler.type");
  reader.set("optimizer.min_lr", lowest.value_or(0), "scheduler.type");
  if (const auto total = reader.count("scheduler.params.total_num_steps"))
    reader.set("optimizer.decay_iters", *total, "scheduler.params.total_num_steps");
}

}  // namespace

void read_deepspeed(Reader& reader) {
  read_precision(reader);
  read_batches(reader);
  read_zero(reader);
  read_optimizer(reader);
  read_scheduler(reader);
  if (const auto steps = reader.count("steps_per_print"); steps && *steps > 0)
    reader.set("train.log_interval", *steps, "steps_per_print");
  reader.ignore({"wall_clock_breakdown", "dump_state", "prescale_gradients",
                 "zero_allow_untested_optimizer", "communication_data_type",
                 "data_types.grad_accum_dtype", "gradient_predivide_factor",
                 "zero_force_ds_cpu_optimizer", "memory_breakdown"});
  read_checkpointing(reader);
  for (const char* section : {"aio", "comms_logger", "flops_profiler", "tensorboard", "wandb",
                              "csv_monitor", "autotuning", "checkpoint", "timers"})
    reader.ignore_section(section);
  reader.result().open = "the model, the data and the number of steps";
}

}  // namespace trireme::settings
