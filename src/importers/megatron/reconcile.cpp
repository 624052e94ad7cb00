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
    draft.contradicts(to, from, "they are two names of one number");
  }
  draft.line().flags.erase(from);
}

void units(Draft& draft) {
  draft.contradicts("--train-iters", "--train-samples", "the run has one length");
  const bool by_samples = draft.has("--train-samples");
  const std::string run = by_samples ? "--train-samples" : "--train-iters";
  const std::string wrong = by_samples ? "-iters" : "-samples";
  for (const char* flag : {"--lr-decay", "--lr-warmup", "--lr-wsd-decay"}) {
    const std::string name = flag + wrong;
    if (draft.integer(name, 0) == 0) continue;  // in Megatron, 0 means not given
    draft.contradicts(run, name, "lengths are counted in iterations or in samples, as the run is");
  }
  draft.contradicts("--train-iters", "--rampup-batch-size", "a ramp-up counts samples");
  draft.contradicts("--train-iters", "--step-batch-size-schedule", "a schedule counts samples");
  for (const char* flag : {"--lr-warmup-iters", "--lr-warmup-samples"}) {
    if (draft.integer(flag, 0) != 0)
      draft.contradicts("--lr-warmup-fraction", flag, "the warm-up has one length");
  }
}

// Flags that exclude each other regardless of their values.
struct Pair {
  const char* flag;
  const char* other;
  const char* why;
};

constexpr Pair kExclusive[] = {
    {"--bf16", "--fp16", "there is one precision"},
    {"--step-batch-size-schedule", "--global-batch-size", "each says what the batch is"},
    {"--step-batch-size-schedule", "--rampup-batch-size", "each says how the batch grows"},
    {"--lr-decay-tokens", "--lr-decay-iters", "the decay has one length"},
    {"--lr-decay-tokens", "--lr-decay-samples", "the decay has one length"},
    {"--lr-warmup-tokens", "--lr-warmup-iters", "the warm-up has one length"},
    {"--lr-warmup-tokens", "--lr-warmup-samples", "the warm-up has one length"},
    {"--swiglu", "--squared-relu", "there is one activation"},
    {"--swiglu", "--quick-geglu", "there is one activation"},
    {"--squared-relu", "--quick-geglu", "there is one activation"},
    {"--quick-geglu", "--openai-gelu", "there is one activation"},
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
  units(draft);
  if (draft.integer("--pipeline-model-parallel-size", 1) > 1) {
    draft.contradicts("--pipeline-model-parallel-size", "--no-pipeline-parallel",
                      "it takes the pipeline away");
  }
}

}  // namespace trireme::megatron
