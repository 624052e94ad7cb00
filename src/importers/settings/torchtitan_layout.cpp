// Reads torchtitan's parallelism degrees under all their names, and derives settings from them.
#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "importers/settings/torchtitan.h"

namespace trireme::settings {
namespace {

// Dates of behavior changes in torchtitan.
constexpr int micro_batches_of_one = 20250407;  // before: as many micro-batches as pipeline stages
constexpr int autocast_without_fsdp = 20250616;

struct Degrees {
  std::int64_t tp, pp, cp, copies;
  std::int64_t shards;  // 0: unknown

  std::int64_t replicas() const { return copies * shards; }
};

std::int64_t degree(Reader& reader, std::initializer_list<const char*> names) {
  const std::string key = reader.one_of(names);
  const std::int64_t value = reader.count(key).value_or(1);
  if (value < 1) reader.refuse(key, fmt::format("is {}, not a degree", value));
  return value;
}

// Data parallelism had a single degree before it was split into replicate and shard degrees.
std::int64_t shard_degree(Reader& reader, std::int64_t& copies) {
  const std::string key =
      reader.one_of({"parallelism.data_parallel_shard_degree",
                     "training.data_parallel_shard_degree", "training.data_parallel_degree"});
  const std::int64_t value = reader.count(key).value_or(-1);
  const std::string kind = reader.text("training.data_parallel_type").value_or("fsdp");
  if (kind != "fsdp" && kind != "ddp")
    reader.refuse("training.data_parallel_type", fmt::format("is '{}', not fsdp or ddp", kind));
  if (value == 0 || value < -1) reader.refuse(key, fmt::format("is {}, not a degree", value));
  if (kind == "fsdp") return value;
  if (value > 0) copies *= value;
  return value > 0 ? 1 : -1;
}

Degrees read_degrees(Reader& reader, std::int64_t ranks) {
  Degrees d{};
  d.tp = degree(reader, {"parallelism.tensor_parallel_degree", "training.tensor_parallel_degree",
                         "training.sequence_parallel_degree"});
  d.pp = degree(reader,
                {"parallelism.pipeline_parallel_degree", "experimental.pipeline_parallel_degree",
                 "training.pipeline_parallel_degree"});
  d.cp = degree(reader,
                {"parallelism.context_parallel_degree", "experimental.context_parallel_degree"});
  d.copies = degree(reader, {"parallelism.data_parallel_replicate_degree",
                             "training.data_parallel_replicate_degree"});
  d.shards = std::max<std::int64_t>(0, shard_degree(reader, d.copies));
  const std::int64_t others = d.tp * d.pp * d.cp * d.copies;
  if (d.shards == 0 && ranks > 0) {
    if (ranks % others != 0)
      reader.refuse("parallelism",
                    fmt::format("has a product of degrees of {}, which does not divide {}", others,
                                counted(ranks, "rank")));
    d.shards = ranks / others;
  }
  reader.result().ranks = others * d.shards;
  if (ranks > 0 && reader.result().ranks != ranks)
    reader.refuse(
        "parallelism",
        fmt::format("is for {} (tensor_parallel_degree {} x pipeline_parallel_degree {} x "
                    "context_parallel_degree {} x data_parallel_replicate_degree {} x "
                    "data_parallel_shard_degree {}), but --ranks is {}",
                    counted(reader.result().ranks, "rank"), d.tp, d.pp, d.cp, d.copies, d.shards,
                    ranks));
  return d;
}

// Schedule names in PyTorch, and in torchtitan before October 2024.
struct ScheduleName {
  const char* name;  // in lower case
  const char* ours;  // null: not available; 1f1b is used instead
  bool looped = false;
};
constexpr ScheduleName schedule_names[] = {{"1f1b", "1f1b"},
                                           {"gpipe", "gpipe"},
                                           {"interleaved1f1b", "interleaved", true},
                                           {"interleaved_1f1b", "interleaved", true},
                                           {"zbvzerobubble", "zbv"},
                                           {"flexibleinterleaved1f1b", nullptr},
                                           {"flexible_interleaved_1f1b", nullptr},
                                           {"interleavedzerobubble", nullptr},
                                           {"loopedbfs", nullptr},
                                           {"dualpipev", nullptr},
                                           {"pipelineschedulesingle", nullptr},
                                           {"pipelineschedulemulti", nullptr}};

// Stages per rank in a looped schedule: two unless split points determine them.
std::int64_t stages_of_rank(Reader& reader, const std::string& splits_key, std::int64_t pp) {
  const std::int64_t points = static_cast<std::int64_t>(reader.list(splits_key).size());
  if (points == 0) return 2;
  if ((points + 1) % pp != 0)
    reader.refuse(splits_key, fmt::format("gives {}, which {} cannot share evenly",
                                          counted(points + 1, "stage"), counted(pp, "rank")));
  reader.note(splits_key,
              "are not carried over: layers are split evenly, which does not change results");
  return (points + 1) / pp;
}

void read_pipeline(Reader& reader, std::int64_t pp) {
  const std::string key = reader.one_of(
      {"parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"});
  const std::string csv = reader.one_of({"parallelism.pipeline_parallel_schedule_csv",
                                         "experimental.pipeline_parallel_schedule_csv"});
  const std::string splits = reader.one_of({"parallelism.pipeline_parallel_split_points",
                                            "experimental.pipeline_parallel_split_points"});
  const std::string name = reader.text(key).value_or("1F1B");
  const std::string order = reader.text(csv).value_or("");
  const auto* row = std::ranges::find(schedule_names, lowered(name), &ScheduleName::name);
  if (row == std::end(schedule_names))
    return reader.lose(key, fmt::format("is '{}', which is not a schedule of PyTorch", name));
  if (pp == 1) {
    for (const std::string& without_effect : {key, csv, splits}) reader.pass(without_effect);
    return;
  }
  const std::int64_t stages = row->looped ? stages_of_rank(reader, splits, pp) : 1;
  if (!row->looped && !reader.list(splits).empty())
    reader.note(splits,
                "are not carried over: layers are split evenly, which does not change results");
  if (!row->ours || !order.empty())
    return reader.note(order.empty() ? key : csv,
                       fmt::format("is '{}': 1f1b is used instead, which does not change results",
                                   order.empty() ? name : order));
  reader.set_text("parallel.schedule", row->ours, key);
  if (row->looped) reader.set("parallel.virtual_stages", stages, key);
}

// Samples per micro-batch: all of the rank's samples, or a part of them with a pipeline.
std::int64_t micro_batch(Reader& reader, const Age& age, const Degrees& d, std::int64_t local,
                         const std::string& local_key) {
  const std::string many = reader.one_of({"parallelism.pipeline_parallel_microbatches",
                                          "experimental.pipeline_parallel_microbatches"});
  const std::string size = "parallelism.pipeline_parallel_microbatch_size";
  const auto parts = reader.count(many);
  const auto samples = reader.count(size);
  if (d.pp == 1) {
    reader.pass(many);
    reader.pass(size);
    return local;
  }
  const auto divided = [&](const std::string& key, std::int64_t by) {
    if (by < 1 || local % by != 0)
      reader.refuse(key, fmt::format("is {}, which does not divide {} = {}", by, local_key, local));
    return local / by;
  };
  if (parts) return divided(many, *parts);
  if (samples) divided(size, *samples);
  if (samples) return *samples;
  return age.is_before(micro_batches_of_one) && local % d.pp == 0 ? local / d.pp : 1;
}

void read_batch(Reader& reader, const Age& age, const Degrees& d) {
  const std::string key = reader.one_of({"training.local_batch_size", "training.batch_size"});
  const std::int64_t local = reader.count(key).value_or(8);
  if (local < 1) reader.refuse(key, fmt::format("is {}, not a number of samples", local));
  reader.set("train.micro_batch_size", micro_batch(reader, age, d, local, key), key);
  const std::int64_t global = reader.count("training.global_batch_size").value_or(-1);
  if (global == 0)
    reader.refuse(
        "training.global_batch_size",
        "is 0, neither a number of samples nor negative (local_batch_size on every rank)");
  if (global < 1 && d.shards == 0)
    return reader.lose("training.global_batch_size",
                       "depends on the number of ranks: add --ranks N");
  if (global > 0 && d.shards > 0 && global % (local * d.replicas()) != 0)
    reader.refuse("training.global_batch_size",
                  fmt::format("is {}, which is not a multiple of {} = {} on {} data-parallel ranks",
                              global, key, local, d.replicas()));
  reader.set("train.global_batch_size", global > 0 ? global : local * d.replicas(),
             global > 0 ? "training.global_batch_size" : key);
}

// torchtitan casts parameters when FSDP gathers them. Without FSDP it uses autocast, which was
// added in June 2025 and is off with tensor or pipeline parallelism. Since 2026 FSDP is always
// there.
void read_precision(Reader& reader, const Age& age, const Degrees& d) {
  const std::string key = "training.mixed_precision_param";
  const std::string type = reader.text(key).value_or("bfloat16");
  if (type != "bfloat16" && type != "float32")
    reader.refuse(key, fmt::format("is '{}', not bfloat16 or float32", type));
  const bool fsdp = d.shards != 1 || d.cp > 1 || age.is_after(printed_since);
  const bool autocast = d.tp == 1 && d.pp == 1 && !age.is_before(autocast_without_fsdp);
  const bool narrow = type == "bfloat16" && (fsdp || autocast);
  if (type == "bfloat16" && !narrow)
    reader.note(key, "has no effect in torchtitan without sharding: computation is in fp32");
  reader.set_text("run.precision", narrow ? "bf16" : "fp32", key);
}

void read_zero(Reader& reader, const Degrees& d) {
  const std::string key = reader.one_of(
      {"parallelism.fsdp_reshard_after_forward", "training.fsdp_reshard_after_forward"});
  const std::string reshard = reader.text(key).value_or("default");
  if (reshard != "default" && reshard != "always" && reshard != "never")
    reader.refuse(key, fmt::format("is '{}', not default, always or never", reshard));
  const bool keeps = reshard == "never" || (reshard == "default" && d.pp > 1);
  const std::int64_t zero = d.shards == 1 ? 0 : keeps ? 2 : 3;
  reader.set("parallel.zero", zero, "parallelism.data_parallel_shard_degree");
  if (reader.flag("training.enable_cpu_offload").value_or(false)) {
    reader.set_text("offload.optimizer", "host", "training.enable_cpu_offload");
    if (zero == 3) reader.set_text("offload.parameters", "host", "training.enable_cpu_offload");
  }
  if (d.copies > 1 && d.shards != 1)
    reader.set("parallel.dp_replicate", d.copies, "parallelism.data_parallel_replicate_degree");
}

void read_context(Reader& reader, std::int64_t cp) {
  const std::string key = reader.one_of({"parallelism.context_parallel_rotate_method",
                                         "experimental.context_parallel_rotate_method"});
  const std::string rotate = reader.text(key).value_or("allgather");
  if (rotate != "allgather" && rotate != "alltoall")
    reader.refuse(key, fmt::format("is '{}', not allgather or alltoall", rotate));
  if (cp > 1)
    reader.set_text("parallel.cp_attention", rotate == "alltoall" ? "ring" : "all_gather", key);
  else
    reader.pass(key);
}

// Experts are spread over the ranks of tensor parallelism too; without expert parallelism each is
// split over them.
void read_experts(Reader& reader, std::int64_t tp) {
  const std::string key = "parallelism.expert_parallel_degree";
  const std::int64_t ep = degree(reader, {key.c_str()});
  if (!reader.setting("moe.num_experts")) {
    if (ep > 1) reader.note(key, "has no effect: the model has no experts");
    return;
  }
  if (ep > 1) reader.set("parallel.ep", ep, key);
  if (ep == 1 && tp > 1) reader.set("parallel.expert_tp", tp, "parallelism.tensor_parallel_degree");
}

}  // namespace

void read_torchtitan_layout(Reader& reader, const Age& age, std::int64_t ranks) {
  const Degrees d = read_degrees(reader, ranks);
  reader.set("parallel.tp", d.tp, "parallelism.tensor_parallel_degree");
  const std::string sequence = "parallelism.enable_sequence_parallel";
  if (d.tp > 1)
    reader.set("parallel.sequence_parallel", reader.flag(sequence).value_or(true),
               reader.is_there(sequence) ? sequence : "parallelism.tensor_parallel_degree");
  else
    reader.pass(sequence);
  reader.set("parallel.pp", d.pp, "parallelism.pipeline_parallel_degree");
  reader.set("parallel.cp", d.cp, "parallelism.context_parallel_degree");
  read_context(reader, d.cp);
  read_experts(reader, d.tp);
  read_pipeline(reader, d.pp);
  read_zero(reader, d);
  read_batch(reader, age, d);
  read_precision(reader, age, d);
}

}  // namespace trireme::settings
