// Brings the flags into one form before anything is decided: other names, lengths in tokens, and
// flags that exclude each other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "megatron/draft.h"

namespace trireme::megatron {
namespace {

// Two names of one number; the first one stays.
void rename(Draft& draft, const std::string& to, const std::string& from) {
  if (!draft.has(from)) return;
  if (!draft.has(to)) {
    draft.give(to, draft.value(from));
  } else if (draft.value(from) != draft.value(to)) {
    draft.contradicts(to, from, "they are two names of one number");
  }
  draft.line().flags.erase(from);
}

// The flag for iterations or samples that corresponds to one for tokens.
std::string counted_flag(const std::string& flag, bool by_samples) {
  const std::string unit = by_samples ? "samples" : "iters";
  if (flag == "--lr-decay-tokens") return "--lr-decay-" + unit;
  if (flag == "--lr-warmup-tokens") return "--lr-warmup-" + unit;
  return "--train-" + unit;
}

void lengths_in_tokens(Draft& draft) {
  const auto seq = static_cast<double>(draft.integer("--seq-length", 0));
  const auto batch = static_cast<double>(draft.integer("--global-batch-size", 0));
  const bool by_samples = draft.has("--train-samples");
  const double unit = by_samples ? seq : seq * batch;
  for (const char* flag : {"--train-tokens", "--lr-decay-tokens", "--lr-warmup-tokens"}) {
    if (!draft.has(flag)) continue;
    if (unit <= 0) {
      draft.complaints().add(flag, "needs --seq-length and --global-batch-size to be divided by");
      continue;
    }
    const std::string counted = counted_flag(flag, by_samples);
    const double exact = std::round(static_cast<double>(draft.integer(flag, 0)) / unit);
    const auto count = static_cast<std::int64_t>(std::clamp(exact, 1.0, 1e15));
    if (draft.has(counted)) {
      const bool ends_run = std::string(flag) == "--train-tokens";
      if (!ends_run) draft.contradicts(flag, counted, "the schedule has one length");
      if (ends_run && draft.integer(counted, 0) <= count) {
        draft.note(flag, fmt::format("the run ends earlier, by {}", counted));
        continue;
      }
    }
    draft.give(counted, fmt::format("{}", count));
    draft.note(flag, fmt::format("becomes {} {}", counted, count));
  }
}

void units(Draft& draft) {
  draft.contradicts("--train-iters", "--train-samples", "the run has one length");
  const bool by_samples = draft.has("--train-samples");
  const std::string run = by_samples ? "--train-samples" : "--train-iters";
  const std::string wrong = by_samples ? "-iters" : "-samples";
  for (const char* flag : {"--lr-decay", "--lr-warmup", "--lr-wsd-decay"}) {
    const std::string name = flag + wrong;
    if (draft.integer(name, 0) == 0) continue;  // 0 is Megatron's way to say nothing
    draft.contradicts(run, name, "lengths are counted in iterations or in samples, as the run is");
  }
  draft.contradicts("--train-iters", "--rampup-batch-size", "a ramp-up counts samples");
  for (const char* flag : {"--lr-warmup-iters", "--lr-warmup-samples"}) {
    if (draft.integer(flag, 0) != 0)
      draft.contradicts("--lr-warmup-fraction", flag, "the warm-up has one length");
  }
}

// Flags that exclude each other whatever their values are.
struct Pair {
  const char* flag;
  const char* other;
  const char* why;
};

constexpr Pair kExclusive[] = {
    {"--bf16", "--fp16", "there is one precision"},
    {"--swiglu", "--squared-relu", "there is one activation"},
    {"--enable-zbh1-pipeline", "--num-layers-per-virtual-pipeline-stage",
     "they are two pipeline schedules"},
    {"--enable-zbh1-pipeline", "--num-virtual-stages-per-pipeline-rank",
     "they are two pipeline schedules"},
    {"--swiglu", "--openai-gelu", "there is one activation"},
    {"--squared-relu", "--openai-gelu", "there is one activation"},
    {"--group-query-attention", "--num-key-value-heads", "give the number to --num-query-groups"},
    {"--data-path", "--train-data-path", "--data-path is cut by --split, the other is not"},
    {"--data-path", "--valid-data-path", "--data-path is cut by --split, the other is not"},
    {"--data-path", "--test-data-path", "--data-path is cut by --split, the other is not"},
    {"--train-data-path", "--split", "--split cuts what --data-path names"},
    {"--use-torch-fsdp2", "--use-distributed-optimizer", "both shard the states"},
    {"--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank",
     "each gives the number of chunks"},
};

void positions(Draft& draft) {
  const char* type = "--position-embedding-type";
  if (draft.value(type) != "rope")
    draft.contradicts("--use-rotary-position-embeddings", type, "they name different positions");
  if (draft.value(type) == "learned_absolute")
    draft.contradicts("--no-position-embedding", type, "there are no positions to learn");
}

}  // namespace

void reconcile(Draft& draft) {
  rename(draft, "--num-layers", "--encoder-num-layers");
  rename(draft, "--seq-length", "--encoder-seq-length");
  rename(draft, "--norm-epsilon", "--layernorm-epsilon");
  rename(draft, "--save-interval", "--persistent-save-interval");
  rename(draft, "--rotary-base", "--rotary-position-embeddings-theta");
  rename(draft, "--recompute-num-layers", "--activations-checkpoint-num-layers");
  if (draft.has("--activations-checkpoint-method")) {
    draft.give("--recompute-granularity", "full");
    rename(draft, "--recompute-method", "--activations-checkpoint-method");
  }
  for (const Pair& pair : kExclusive) draft.contradicts(pair.flag, pair.other, pair.why);
  positions(draft);
  lengths_in_tokens(draft);
  units(draft);
  if (draft.integer("--pipeline-model-parallel-size", 1) > 1) {
    draft.contradicts("--pipeline-model-parallel-size", "--no-pipeline-parallel",
                      "it takes the pipeline away");
  }
}

}  // namespace trireme::megatron
