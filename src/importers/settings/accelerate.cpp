// Reads accelerate's settings (`accelerate config`): machines, precision, and model sharding.
#include "importers/settings/accelerate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace trireme::settings {
namespace {

// -1: determined by SLURM or --num_processes.
void read_processes(Reader& reader, const std::string& type) {
  const auto said = reader.count("num_processes");
  const std::int64_t nodes = reader.count("num_machines").value_or(1);
  const std::int64_t processes = said.value_or(type == "NO" ? 1 : -1);
  const std::int64_t asked = reader.result().ranks;
  if (nodes < 1) reader.refuse("num_machines", fmt::format("is {}, not a count", nodes));
  if (processes == 0 || processes < -1)
    reader.refuse("num_processes", fmt::format("is {}, not a count", processes));
  if (type == "NO" && processes > 1 && reader.has("distributed_type"))
    reader.refuse(
        "num_processes",
        fmt::format(
            "is {}, but with distributed_type NO accelerate starts only one process: use MULTI_GPU",
            processes));
  if (said && processes > 0 && asked > 0 && asked != processes)
    reader.refuse("num_processes", fmt::format("is {}, but --ranks is {}", processes, asked));
  if (processes > 0 && asked == 0) reader.result().ranks = processes;
  reader.result().nodes = nodes;
  if (reader.result().ranks % nodes != 0)
    reader.refuse("num_processes",
                  fmt::format("is {}, which is not a multiple of num_machines = {}",
                              reader.result().ranks, nodes));
  if (const auto environment = reader.text("compute_environment");
      environment && *environment != "LOCAL_MACHINE")
    reader.refuse(
        "compute_environment",
        fmt::format("is '{}', which starts containers: expected LOCAL_MACHINE", *environment));
}

// Read after a DeepSpeed file, which may also set it. Old files have "fp16: true".
void read_precision(Reader& reader) {
  const bool old_fp16 = reader.flag("fp16").value_or(false);
  if (reader.has("mixed_precision")) reader.pass("fp16");
  const std::string said = lowered(reader.text("mixed_precision").value_or(""));
  const std::string precision = said.empty() && old_fp16 ? "fp16" : said;
  if (precision.empty()) {
    if (!reader.setting("run.precision"))
      reader.set_text("run.precision", "fp32", "mixed_precision is not set");
    return;
  }
  if (precision == "fp8")
    return reader.lose("mixed_precision",
                       "is fp8 with an unsupported recipe: use bf16 and fp8.recipe");
  if (precision != "no" && precision != "bf16" && precision != "fp16")
    reader.refuse("mixed_precision", fmt::format("is '{}', not no, fp16, bf16 or fp8", precision));
  reader.set_text("run.precision", precision == "no" ? "fp32" : precision,
                  said.empty() ? "fp16" : "mixed_precision");
}

// A key of the FSDP section, whose "fsdp_" prefix is optional.
std::string of_fsdp(const Reader& reader, const std::string& name) {
  const std::string with = "fsdp_config.fsdp_" + name, without = "fsdp_config." + name;
  if (reader.has(with) && reader.has(without))
    reader.refuse(without,
                  fmt::format("is set in addition to {}, which has the same meaning", with));
  return reader.has(without) ? without : with;
}

// Sharding strategies by name or number, and whether parameters are freed after the forward pass.
struct Strategy {
  const char* word;  // lower case
  std::int64_t stage;
  bool hybrid;
};
constexpr Strategy strategies[] = {{"full_shard", 3, false},
                                   {"1", 3, false},
                                   {"yes", 3, false},
                                   {"true", 3, false},
                                   {"shard_grad_op", 2, false},
                                   {"2", 2, false},
                                   {"no", 2, false},
                                   {"false", 2, false},
                                   {"no_shard", 0, false},
                                   {"3", 0, false},
                                   {"hybrid_shard", 3, true},
                                   {"4", 3, true},
                                   {"hybrid_shard_zero2", 2, true},
                                   {"5", 2, true}};

// FSDP1 has a sharding strategy, FSDP2 has reshard_after_forward; files for either may contain
// both.
Strategy strategy_of(Reader& reader) {
  const std::string first = of_fsdp(reader, "sharding_strategy"),
                    second = of_fsdp(reader, "reshard_after_forward");
  const std::int64_t version = reader.count(of_fsdp(reader, "version")).value_or(1);
  if (version != 1 && version != 2)
    reader.refuse(of_fsdp(reader, "version"), fmt::format("is {}, not 1 or 2", version));
  const auto read = [&](const std::string& key) {
    const std::string word = reader.text(key).value_or("FULL_SHARD");
    const auto* row = std::ranges::find(strategies, lowered(word), &Strategy::word);
    if (row == std::end(strategies))
      reader.refuse(key, fmt::format("is '{}', not FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, "
                                     "HYBRID_SHARD or HYBRID_SHARD_ZERO2",
                                     word));
    return *row;
  };
  const Strategy one = read(first), two = read(second);
  if (reader.has(first) && reader.has(second) && one.stage != two.stage)
    reader.note(version == 2 ? first : second,
                fmt::format("has no effect with fsdp_version {}: {} is used instead", version,
                            version == 2 ? second : first));
  if (version == 2) return reader.has(second) ? two : Strategy{"true", 3, false};
  return reader.has(first) ? one : two;
}

void read_fsdp(Reader& reader) {
  const Strategy strategy = strategy_of(reader);
  const std::int64_t nodes = reader.result().nodes;
  reader.set("parallel.zero", strategy.stage, "fsdp_config");
  if (strategy.hybrid && nodes > 1) reader.set("parallel.dp_replicate", nodes, "fsdp_config");
  const std::string again = of_fsdp(reader, "activation_checkpointing"),
                    moved = of_fsdp(reader, "activation_checkpointing_offload"),
                    offload = of_fsdp(reader, "offload_params");
  if (reader.flag(again).value_or(false)) reader.set_text("parallel.recompute", "full", again);
  if (reader.flag(moved).value_or(false)) reader.set_text("offload.activations", "host", moved);
  if (reader.flag(offload).value_or(false)) {
    reader.set_text("offload.optimizer", "host", offload);
    if (strategy.stage == 3) reader.set_text("offload.parameters", "host", offload);
  }
}

// Offloading of optimizer states or parameters: the device, and the folder for nvme.
void read_offload(Reader& reader, const char* what, const char* ours, std::int64_t stage) {
  const std::string key = fmt::format("deepspeed_config.offload_{}_device", what);
  const std::string folder = fmt::format("deepspeed_config.offload_{}_nvme_path", what);
  const std::string device = lowered(reader.text(key).value_or("none"));
  const auto path = reader.text(folder);
  if (device != "none" && device != "cpu" && device != "nvme")
    reader.refuse(key, fmt::format("is '{}', not none, cpu or nvme", device));
  if (device == "none" || (std::string(what) == "param" && stage != 3)) {
    if (device != "none") reader.note(key, "has no effect: DeepSpeed uses it only with stage 3");
    return reader.pass(folder);
  }
  if (device == "cpu") {
    reader.pass(folder);
    return reader.set_text(ours, "host", key);
  }
  reader.set_text(ours, "file", key);
  if (!path || lowered(*path) == "none")
    return reader.lose(key, "is 'nvme', which requires a folder: set offload.path");
  reader.set_text("offload.path", *path, folder);
}

// DeepSpeed settings given in accelerate's file instead of a DeepSpeed file.
void read_deepspeed_answers(Reader& reader) {
  const auto key = [](const char* name) { return fmt::format("deepspeed_config.{}", name); };
  const std::int64_t stage = reader.count(key("zero_stage")).value_or(2);
  if (stage < 0 || stage > 3)
    reader.refuse(key("zero_stage"), fmt::format("is {}, not from 0 to 3", stage));
  reader.set("parallel.zero", stage, key("zero_stage"));
  if (!reader.says(key("gradient_clipping"), "none"))
    if (const auto clip = reader.number(key("gradient_clipping")))
      reader.set("optimizer.clip_grad", *clip, key("gradient_clipping"));
  reader.consume(key("gradient_clipping"));
  if (const auto steps = reader.count(key("gradient_accumulation_steps"))) {
    if (*steps < 1)
      reader.refuse(key("gradient_accumulation_steps"), fmt::format("is {}, not above 0", *steps));
    leave_batch_open(reader, key("gradient_accumulation_steps"), *steps);
  }
  read_offload(reader, "optimizer", "offload.optimizer", stage);
  read_offload(reader, "param", "offload.parameters", stage);
}

// On several machines DeepSpeed's own launcher starts a process on each device that these name,
// whatever num_processes is; accelerate's own ("standard") ignores them.
void read_device_filters(Reader& reader) {
  const std::string launcher =
      lowered(reader.text("deepspeed_config.deepspeed_multinode_launcher").value_or("pdsh"));
  const bool used = reader.result().nodes > 1 && launcher != "standard";
  for (const char* name : {"deepspeed_exclusion_filter", "deepspeed_inclusion_filter"}) {
    const std::string key = fmt::format("deepspeed_config.{}", name);
    const std::string filter = reader.text(key).value_or("");
    if (!used || filter.empty() || lowered(filter) == "none") {
      reader.pass(key);
    } else {
      reader.lose(key, fmt::format("is '{}', which decides how many processes start instead of "
                                   "num_processes: remove it and set num_processes",
                                   filter));
    }
  }
}

// The DeepSpeed file or the settings that replace it. accelerate refuses settings that the file has
// too.
void read_deepspeed_part(Reader& reader) {
  const std::string key = "deepspeed_config.deepspeed_config_file";
  const auto file = reader.text(key);
  if (!file || lowered(*file) == "none") return read_deepspeed_answers(reader);
  const fs::path path = fs::path(reader.path()).parent_path() / *file;
  if (!fs::is_regular_file(path))
    reader.refuse(key, fmt::format("is '{}', which does not exist", path.string()));
  for (const char* answer : {"zero_stage", "gradient_clipping", "gradient_accumulation_steps",
                             "offload_optimizer_device", "offload_param_device",
                             "offload_optimizer_nvme_path", "offload_param_nvme_path"})
    if (const std::string name = fmt::format("deepspeed_config.{}", answer); reader.has(name))
      reader.refuse(
          name,
          fmt::format("is set in addition to deepspeed_config_file = '{}', which also sets it: "
                      "accelerate rejects both",
                      *file));
  const Parsed parsed = parse_settings(read_file(path, largest_settings_file), path);
  Reader inner(path.string(), parsed.json, reader.result());
  read_deepspeed(inner);
  inner.lose_others();
}

std::string type_of(Reader& reader) {
  const std::string type = reader.text("distributed_type").value_or("NO");
  return type == "no" ? "NO" : type;  // YAML parses an unquoted NO as false
}

}  // namespace

void read_accelerate(Reader& reader) {
  const std::string type = type_of(reader);
  pass_accelerate_keys(reader, type);
  read_processes(reader, type);
  if (type == "DEEPSPEED") {
    read_device_filters(reader);
    read_deepspeed_part(reader);
  } else if (type == "FSDP") {
    read_fsdp(reader);
  } else if (type == "MEGATRON_LM") {
    read_accelerate_megatron(reader);
  } else if (type == "NO" || type.starts_with("MULTI_")) {
    reader.set("parallel.zero", std::int64_t{0}, "distributed_type");
  } else {
    reader.refuse(
        "distributed_type",
        fmt::format("is '{}': expected NO, MULTI_GPU, MULTI_CPU, DEEPSPEED, FSDP or MEGATRON_LM",
                    type));
  }
  read_precision(reader);
  read_accelerate_parallelism(reader);
  if (reader.flag("use_cpu").value_or(false) || type == "MULTI_CPU")
    reader.set_text("run.device", "cpu", type == "MULTI_CPU" ? "distributed_type" : "use_cpu");
  reader.result().open =
      "the model, the data, the optimizer and the batch size, which are set in your program";
}

}  // namespace trireme::settings
