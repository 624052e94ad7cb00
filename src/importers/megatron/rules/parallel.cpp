// Translates parallelism keys that depend on several flags.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/counted.h"
#include "config/divisors.h"
#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

constexpr std::int64_t kMostStages = 1 << 16;

void sharding(Draft& draft) {
  int level = -1;
  std::string origin;
  const auto take = [&](const std::string& flag, int value) {
    if (level >= 0 && level != value && origin == "--zero-stage") {
      draft.complaints().add(
          flag, fmt::format("contradicts --zero-stage {}: it implies {}", level, value));
      return;
    }
    level = value;
    origin = flag;
  };
  if (draft.has("--zero-stage")) {
    const std::int64_t stage = draft.integer("--zero-stage", 0);
    if (stage < 0 || stage > 3) {
      draft.complaints().add(
          "--zero-stage",
          fmt::format("{} is out of range; it must be at least 0 and at most 3", stage));
    } else {
      take("--zero-stage", static_cast<int>(stage));
    }
  }
  if (draft.has("--use-distributed-optimizer")) take("--use-distributed-optimizer", 1);
  if (draft.value("--optimizer") == "dist_muon") take("--optimizer", 1);
  if (draft.has("--use-torch-fsdp2")) take("--use-torch-fsdp2", 3);
  const bool fsdp = draft.has("--use-custom-fsdp") || draft.has("--use-megatron-fsdp");
  const std::string strategy = draft.value("--data-parallel-sharding-strategy");
  if (!strategy.empty() && !fsdp) {
    draft.note("--data-parallel-sharding-strategy",
               "no effect without --use-custom-fsdp or --use-megatron-fsdp, as in Megatron");
  } else if (!strategy.empty()) {
    for (const auto& [theirs, ours] : choices(*find_flag("--data-parallel-sharding-strategy"))) {
      if (theirs == strategy) take("--data-parallel-sharding-strategy", ours[0] - '0');
    }
  }
  if (level >= 0) draft.set("parallel.zero", fmt::format("{}", level), origin);
}

void virtual_stages(Draft& draft) {
  const char* by_layers = "--num-layers-per-virtual-pipeline-stage";
  const char* by_count = "--num-virtual-stages-per-pipeline-rank";
  const std::string flag = draft.has(by_layers) ? by_layers : by_count;
  if (!draft.has(flag)) return;
  const std::int64_t layers = draft.integer("--num-layers", 0);
  const std::int64_t pp = draft.integer("--pipeline-model-parallel-size", 1);
  if (pp < 2) {
    return draft.complaints().add(flag, "requires --pipeline-model-parallel-size above 1");
  }
  std::int64_t chunks = draft.integer(flag, 0);
  if (flag == by_layers) {
    const std::int64_t per_rank = layers / pp;
    if (layers % pp != 0 || chunks < 1 || per_rank < 1 || per_rank % chunks != 0) {
      const std::string fit =
          layers % pp == 0 && per_rank > 0
              ? fmt::format("it can be {}",
                            divisors_near(per_rank, std::max<std::int64_t>(chunks, 1)))
              : "the number of layers is not divisible by the number of stages";
      return draft.complaints().add(
          flag, fmt::format("{} does not divide the layers of a rank ({}, {}): {}", chunks,
                            counted(layers, "layer"), counted(pp, "stage"), fit));
    }
    chunks = per_rank / chunks;
  }
  if (chunks < 1) return draft.complaints().add(flag, "must be at least 1");
  if (chunks == 1) return draft.note(flag, "one model chunk per rank: schedule 1f1b");
  draft.set("parallel.virtual_stages", fmt::format("{}", chunks), flag);
  draft.set_text("parallel.schedule", "interleaved", flag);
}

void zero_bubble(Draft& draft) {
  const char* flag = "--enable-zbh1-pipeline";
  if (!draft.has(flag)) return;
  if (draft.integer("--pipeline-model-parallel-size", 1) < 2)
    return draft.note(flag, "no effect without pipeline parallelism");
  draft.set_text("parallel.schedule", "zb1p", flag);
}

void uneven_stages(Draft& draft) {
  const char* first = "--decoder-first-pipeline-num-layers";
  const char* last = "--decoder-last-pipeline-num-layers";
  if (!draft.has(first) && !draft.has(last)) return;
  const std::int64_t layers = draft.integer("--num-layers", 0);
  const std::int64_t pp = draft.integer("--pipeline-model-parallel-size", 1);
  const std::int64_t given = (draft.has(first) ? 1 : 0) + (draft.has(last) ? 1 : 0);
  // Clamped: beyond the number of layers it is invalid anyway, and the arithmetic below cannot
  // overflow.
  const std::int64_t front = std::clamp<std::int64_t>(draft.integer(first, 0), -1, layers + 1);
  const std::int64_t back = std::clamp<std::int64_t>(draft.integer(last, 0), -1, layers + 1);
  const std::int64_t rest = layers - front - back;
  const std::int64_t others = pp - given;
  const bool fits = pp > 1 && pp <= kMostStages && front >= 0 && back >= 0 && rest >= 0 &&
                    (others == 0 ? rest == 0 : rest % others == 0);
  const char* flag = draft.has(first) ? first : last;
  if (!fits) {
    return draft.complaints().add(
        flag, fmt::format("{} of {} layers cannot be divided evenly over the other {} of {}", rest,
                          layers, std::max<std::int64_t>(others, 0), counted(pp, "stage")));
  }
  std::vector<std::int64_t> stages;
  if (draft.has(first)) stages.push_back(front);
  for (std::int64_t i = 0; i < others; ++i) stages.push_back(rest / others);
  if (draft.has(last)) stages.push_back(back);
  draft.set("parallel.stage_layers", fmt::format("[{}]", fmt::join(stages, ", ")), flag);
}

// Context parallelism flags of both programs.
void context(Draft& draft) {
  const char* ulysses = "--ds-sequence-parallel-size";
  if (const std::int64_t ranks = draft.integer(ulysses, 1); ranks != 1) {
    if (draft.integer("--context-parallel-size", 1) > 1)
      return draft.complaints().add(ulysses, "conflicts with --context-parallel-size");
    draft.set("parallel.cp", fmt::format("{}", ranks), ulysses);
    draft.set_text("parallel.cp_attention", "ulysses", ulysses);
  }
  const char* flag = "--cp-comm-type";
  if (!draft.has(flag)) return;
  const std::vector<std::string>& kinds = draft.line().flags.at(flag);
  const std::string& kind = kinds.front();
  if (std::any_of(kinds.begin(), kinds.end(), [&](const auto& other) { return other != kind; }))
    return draft.complaints().add(flag, "only one type for all layers is supported");
  if (draft.integer("--context-parallel-size", 1) == 1)
    return draft.note(flag, "no effect without --context-parallel-size, as in Megatron");
  if (kind == "a2a") return draft.set_text("parallel.cp_attention", "ulysses", flag);
  if (kind == "p2p") return draft.set_text("parallel.cp_attention", "ring", flag);
  if (kind != "all_gather") {
    draft.complaints().add(
        flag, fmt::format("\"{}\" is not supported; use a2a, all_gather or p2p", kind));
  }
}

}  // namespace

void translate_parallel(Draft& draft) {
  sharding(draft);
  virtual_stages(draft);
  zero_bubble(draft);
  uneven_stages(draft);
  context(draft);
  if (!draft.has("--sequence-parallel")) return;
  if (draft.integer("--tensor-model-parallel-size", 1) > 1) {
    draft.set("parallel.sequence_parallel", "true", "--sequence-parallel");
  } else {
    draft.note("--sequence-parallel", "no effect without tensor parallelism, as in Megatron");
  }
}

}  // namespace trireme::megatron
