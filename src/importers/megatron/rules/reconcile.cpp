// Normalizes flags before translation: resolves aliases and mutually exclusive
// flags.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

// Merges two names of a number; keeps the first.
void rename(Draft& draft, const std::string& to, const std::string& from) {
  if (!draft.has(from)) return;
  if (!draft.has(to)) {
    draft.give(to, draft.value(from));
  } else if (draft.value(from) != draft.value(to)) {
    draft.contradicts(to, from, "both set the same number");
  }
  draft.line().flags.erase(from);
}

void units(Draft& draft) {
  draft.contradicts("--train-iters", "--train-samples", "a run has only one length");
  const bool by_samples = draft.has("--train-samples");
  const std::string run = by_samples ? "--train-samples" : "--train-iters";
  const std::string wrong = by_samples ? "-iters" : "-samples";
  for (const char* flag : {"--lr-decay", "--lr-warmup", "--lr-wsd-decay"}) {
    const std::string name = flag + wrong;
    if (draft.integer(name, 0) == 0) continue;  // in Megatron, 0 means not given
    draft.contradicts(run, name,
                      "lengths are in iterations or samples, like the length of the run");
  }
  draft.contradicts("--train-iters", "--rampup-batch-size", "batch-size ramp-up requires samples");
  draft.contradicts("--train-iters", "--step-batch-size-schedule",
                    "a batch-size schedule requires samples");
  for (const char* flag : {"--lr-warmup-iters", "--lr-warmup-samples"}) {
    if (draft.integer(flag, 0) != 0)
      draft.contradicts("--lr-warmup-fraction", flag, "the warm-up has only one length");
  }
}

// Flags that exclude each other regardless of their values.
struct Pair {
  const char* flag;
  const char* other;
  const char* why;
};

constexpr Pair kExclusive[] = {
    {"--bf16", "--fp16", "a run has only one precision"},
    {"--step-batch-size-schedule", "--global-batch-size", "both set the batch size"},
    {"--step-batch-size-schedule", "--rampup-batch-size", "both set the growth of the batch size"},
    {"--lr-decay-tokens", "--lr-decay-iters", "the decay has only one length"},
    {"--lr-decay-tokens", "--lr-decay-samples", "the decay has only one length"},
    {"--lr-warmup-tokens", "--lr-warmup-iters", "the warm-up has only one length"},
    {"--lr-warmup-tokens", "--lr-warmup-samples", "the warm-up has only one length"},
    {"--swiglu", "--squared-relu", "a model has only one activation"},
    {"--swiglu", "--quick-geglu", "a model has only one activation"},
    {"--squared-relu", "--quick-geglu", "a model has only one activation"},
    {"--quick-geglu", "--openai-gelu", "a model has only one activation"},
    {"--enable-zbh1-pipeline", "--num-layers-per-virtual-pipeline-stage",
     "they select different pipeline schedules"},
    {"--enable-zbh1-pipeline", "--num-virtual-stages-per-pipeline-rank",
     "they select different pipeline schedules"},
    {"--swiglu", "--openai-gelu", "a model has only one activation"},
    {"--squared-relu", "--openai-gelu", "a model has only one activation"},
    {"--group-query-attention", "--num-key-value-heads", "set the number with --num-query-groups"},
    {"--data-path", "--train-data-path", "--data-path is divided by --split, the other is not"},
    {"--data-path", "--valid-data-path", "--data-path is divided by --split, the other is not"},
    {"--data-path", "--test-data-path", "--data-path is divided by --split, the other is not"},
    {"--train-data-path", "--split", "--split divides the data of --data-path"},
    {"--use-torch-fsdp2", "--use-distributed-optimizer", "both shard the optimizer states"},
    {"--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank",
     "both set the number of model chunks"},
};

void positions(Draft& draft) {
  const char* type = "--position-embedding-type";
  if (draft.value(type) != "rope")
    draft.contradicts("--use-rotary-position-embeddings", type,
                      "they select different position embeddings");
  if (draft.value(type) == "learned_absolute")
    draft.contradicts("--no-position-embedding", type, "there are no position embeddings to learn");
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
  units(draft);
  if (draft.integer("--pipeline-model-parallel-size", 1) > 1) {
    draft.contradicts("--pipeline-model-parallel-size", "--no-pipeline-parallel",
                      "it disables pipeline parallelism");
  }
}

}  // namespace trireme::megatron
