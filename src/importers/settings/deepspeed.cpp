// Reads DeepSpeed configurations (https://www.deepspeed.ai/docs/config-json): precision, batches,
// ZeRO, optimizer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "importers/settings/deepspeed.h"

namespace trireme::settings {
namespace {

void read_loss_scale(Reader& reader) {
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
                "is true, but in Trireme the hysteresis is reset only when the loss scale grows");
}

void read_precision(Reader& reader) {
  const bool fp16 = reader.flag("fp16.enabled").value_or(false);
  // The old name only counts if the new one is absent.
  const bool old_name = reader.is_there("bfloat16") && !reader.is_there("bf16");
  const std::string key = old_name ? "bfloat16.enabled" : "bf16.enabled";
  const bool bf16 = reader.flag(key).value_or(false);
  if (reader.is_there("bfloat16") && !old_name) {
    reader.consume_section("bfloat16");
    reader.lose("bfloat16", "has no effect in DeepSpeed in addition to bf16: remove one of them");
  }
  if (fp16 && bf16)
    reader.refuse("fp16.enabled",
                  fmt::format("and {} are both true: only one of them may be", key));
  if (fp16 || bf16) {
    reader.set_text("run.precision", fp16 ? "fp16" : "bf16", fp16 ? "fp16.enabled" : key);
  } else if (reader.result().system == System::accelerate) {
    // accelerate fills in its own setting.
  } else if (reader.is_auto("fp16.enabled") || reader.is_auto(key)) {
    reader.note(key, "is 'auto', which the program fills in: set run.precision");
  } else {
    reader.set_text("run.precision", "fp32", "neither fp16 nor bf16");
  }
  if (fp16) return read_loss_scale(reader);
  for (const char* name : {"loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis",
                           "min_loss_scale", "consecutive_hysteresis"})
    reader.pass(fmt::format("fp16.{}", name));
}

// The three batch size settings, if given.
struct BatchSizes {
  static constexpr const char* global_key = "train_batch_size";
  static constexpr const char* micro_key = "train_micro_batch_size_per_gpu";
  static constexpr const char* steps_key = "gradient_accumulation_steps";
  std::optional<std::int64_t> global, micro, steps;
};

BatchSizes read_sizes(Reader& reader) {
  const auto size = [&](const char* key) {
    const auto value = reader.count(key);
    if (value && *value < 1) reader.refuse(key, fmt::format("is {}, not above 0", *value));
    return value;
  };
  return {size(BatchSizes::global_key), size(BatchSizes::micro_key), size(BatchSizes::steps_key)};
}

// Number of data-parallel ranks; 0: unknown. Other ranks share the samples of their group.
std::int64_t ranks_of_data(Reader& reader) {
  const std::string tp_key = "tensor_parallel.autotp_size", cp_key = "sequence_parallel_size";
  const std::int64_t tp = std::max<std::int64_t>(1, reader.count(tp_key).value_or(1));
  const std::int64_t cp = std::max<std::int64_t>(1, reader.count(cp_key).value_or(1));
  if (tp > 1) reader.set("parallel.tp", tp, tp_key);
  if (cp > 1) {
    reader.set("parallel.cp", cp, cp_key);
    reader.set_text("parallel.cp_attention", "ulysses", cp_key);
  }
  const std::int64_t ranks = reader.result().ranks;
  if (ranks % (tp * cp) != 0)
    reader.refuse(tp > 1 ? tp_key : cp_key,
                  fmt::format("requires a multiple of {} ranks, but there are {}", tp * cp, ranks));
  return ranks / (tp * cp);
}

// Whether the program decides how many micro-batches make a batch: "auto" is no default of 1.
bool is_left_to_the_program(Reader& reader, const BatchSizes& b) {
  return reader.is_auto(BatchSizes::steps_key) ||
         (!b.steps && reader.is_auto(BatchSizes::global_key));
}

// Like DeepSpeed, derives the third number from two and the ranks, and checks that all agree.
void complete(Reader& reader, BatchSizes& b, std::int64_t ranks) {
  if (b.global && !b.micro && ranks > 0) {
    const std::int64_t parts = ranks * b.steps.value_or(1);
    if (*b.global % parts != 0)
      reader.refuse(BatchSizes::global_key,
                    fmt::format("is {}, which is not a multiple of {} x {} "
                                "gradient_accumulation_steps",
                                *b.global, counted(ranks, "rank"), b.steps.value_or(1)));
    b.micro = *b.global / parts;
  } else if (b.global && b.micro && ranks > 0) {
    const std::int64_t steps = b.steps.value_or(*b.global / (*b.micro * ranks));
    if (*b.micro * steps * ranks != *b.global)
      reader.refuse(
          BatchSizes::global_key,
          fmt::format("is {}, but train_micro_batch_size_per_gpu x gradient_accumulation_steps x "
                      "ranks is {} x {} x {} = {}",
                      *b.global, *b.micro, steps, ranks, *b.micro * steps * ranks));
  } else if (b.global && b.micro) {
    const std::int64_t part = *b.micro * b.steps.value_or(1);
    if (*b.global % part != 0)
      reader.refuse(BatchSizes::global_key,
                    fmt::format("is {}, which is not a multiple of train_micro_batch_size_per_gpu "
                                "x gradient_accumulation_steps = {} x {}",
                                *b.global, *b.micro, b.steps.value_or(1)));
  } else if (b.micro && ranks > 0 && !is_left_to_the_program(reader, b)) {
    b.global = *b.micro * b.steps.value_or(1) * ranks;
  }
}

void read_batches(Reader& reader) {
  const std::int64_t ranks = ranks_of_data(reader);
  BatchSizes b = read_sizes(reader);
  const bool said = b.global.has_value();
  complete(reader, b, ranks);
  if (b.micro) reader.set("train.micro_batch_size", *b.micro, BatchSizes::micro_key);
  if (b.global) {
    reader.set("train.global_batch_size", *b.global,
               said ? BatchSizes::global_key : BatchSizes::micro_key);
  } else if (b.micro) {
    reader.lose(
        b.steps ? BatchSizes::steps_key : BatchSizes::micro_key,
        fmt::format("is {}, so the global batch size depends on the number of ranks: add --ranks N "
                    "or set train.global_batch_size",
                    b.steps.value_or(*b.micro)));
  } else if (b.steps) {
    leave_batch_open(reader, BatchSizes::steps_key, *b.steps);
  } else if (!reader.is_auto(BatchSizes::global_key) && !reader.is_auto(BatchSizes::micro_key)) {
    reader.note(BatchSizes::global_key,
                "is not set, and neither is the micro-batch size: set train.global_batch_size");
  }
}

void read_clipping(Reader& reader) {
  const auto clip = reader.number("gradient_clipping");
  if (reader.is_auto("gradient_clipping")) return;
  if (!clip)
    reader.note("gradient_clipping",
                "is not set: 1.0, DeepSpeed's default; older versions did not clip");
  reader.set("optimizer.clip_grad", clip.value_or(1), "gradient_clipping");
}

// Offload devices and paths. One folder is used for all files.
void read_offload(Reader& reader, std::int64_t stage) {
  std::string folder;
  for (const auto& [what, ours] :
       {std::pair<std::string, std::string>{"offload_optimizer", "offload.optimizer"},
        {"offload_param", "offload.parameters"}}) {
    const std::string section = "zero_optimization." + what;
    const std::string device = reader.text(section + ".device").value_or("none");
    const auto path = reader.text(section + ".nvme_path");
    if (device == "none") continue;
    if (what == "offload_param" && stage != 3) {
      reader.refuse(section + ".device",
                    fmt::format("is '{}', which DeepSpeed uses only with stage 3", device));
    } else if (device == "nvme" && path) {
      if (!folder.empty() && folder != *path)
        reader.lose(section + ".nvme_path",
                    fmt::format("is '{}', but all files go to one folder, '{}'", *path, folder));
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

// Activation checkpointing in the program: the file does not tell which layers.
void read_checkpointing(Reader& reader) {
  const std::string section = "activation_checkpointing.";
  if (reader.flag(section + "partition_activations").value_or(false)) {
    reader.set_text("parallel.recompute", "full", section + "partition_activations");
    reader.set("parallel.distribute_saved_activations", true, section + "partition_activations");
  }
  if (reader.flag(section + "cpu_checkpointing").value_or(false))
    reader.set_text("offload.activations", "host", section + "cpu_checkpointing");
}

// The section's oldest form is a boolean: true means stage 1.
std::int64_t read_stage(Reader& reader) {
  const std::string section = "zero_optimization";
  if (reader.json().contains(section) && reader.json()[section].is_boolean())
    return reader.flag(section).value_or(false) ? 1 : 0;
  const std::int64_t stage = reader.count(section + ".stage").value_or(0);
  if (stage < 0 || stage > 3)
    reader.refuse(section + ".stage", fmt::format("is {}, not from 0 to 3", stage));
  return stage;
}

// MiCS: parameters are sharded within groups of ranks and replicated across groups.
void read_groups(Reader& reader) {
  const std::string key = "zero_optimization.mics_shard_size";
  const std::int64_t group = reader.count(key).value_or(-1);
  const std::int64_t ranks = reader.result().ranks;
  if (group < 1 || group == ranks) return;
  if (ranks > 0 && ranks % group == 0)
    return reader.set("parallel.dp_replicate", ranks / group, key);
  reader.lose(key, fmt::format("is {}: set parallel.dp_replicate to the number of such groups{}",
                               group, ranks > 0 ? "" : ", or add --ranks N"));
}

void read_zero(Reader& reader) {
  const std::int64_t stage = read_stage(reader);
  reader.set("parallel.zero", stage, "zero_optimization.stage");
  read_offload(reader, stage);
  read_groups(reader);
  for (const auto& [key, ours] : {std::pair{"cpu_offload", "offload.optimizer"},
                                  {"cpu_offload_param", "offload.parameters"}}) {
    const std::string whole = fmt::format("zero_optimization.{}", key);
    if (reader.flag(whole).value_or(false)) reader.set_text(ours, "host", whole);
  }
}

void read_tensor_parallel(Reader& reader) {
  for (const char* name : {"tp", "tensor_parallel"}) {
    const std::string size = fmt::format("tensor_parallel.{}.tp_size", name);
    if (const auto value = reader.count(size); value && *value > 1)
      reader.lose(
          size,
          fmt::format("is {}: the tensor-parallel size of training is tensor_parallel.autotp_size",
                      *value));
    reader.pass(fmt::format("tensor_parallel.{}.tp_grain_size", name));
  }
}

// Sparse attention kernels, which all change results.
void read_sparse_attention(Reader& reader) {
  if (!reader.is_there("sparse_attention")) return;
  reader.consume_section("sparse_attention");
  reader.lose(
      "sparse_attention",
      fmt::format("has the mode {}: sparse attention is not supported; for local attention use "
                  "model.window_layers and model.attention_window",
                  reader.shown("sparse_attention.mode")));
}

}  // namespace

void leave_batch_open(Reader& reader, const std::string& key, std::int64_t micro_batches) {
  reader.result().micro_batches = micro_batches;
  reader.result().micro_batches_key = key;
  if (micro_batches != 1)
    reader.note(
        key,
        fmt::format(
            "is {}: set train.global_batch_size to that number times the batch size per rank of "
            "your program times the data-parallel ranks",
            micro_batches));
}

void read_deepspeed(Reader& reader) {
  for (const auto& [prefix, keys] : passed_deepspeed_keys()) reader.pass(prefix, keys);
  for (const auto& [section, otherwise] : switched_deepspeed_sections())
    reader.pass_if_off(section, otherwise);
  read_precision(reader);
  read_batches(reader);
  read_clipping(reader);
  read_zero(reader);
  read_deepspeed_optimizer(reader);
  if (const auto steps = reader.count("steps_per_print"); steps && *steps > 0)
    reader.set("train.log_interval", *steps, "steps_per_print");
  read_checkpointing(reader);
  read_tensor_parallel(reader);
  read_sparse_attention(reader);
  reader.result().open = "the model, the data and the number of steps";
}

}  // namespace trireme::settings
