// The table of stacks.
#include "plan/timing/stack.h"

#include <fmt/format.h>

#include "base/error.h"

namespace trireme {
namespace {

// Its attention is PyTorch's, whose backend on GPUs is FlashAttention 2. Recomputation ends early:
// checkpoints that are not reentrant stop when the last value that is needed is there. All logits
// become fp32 before the loss, which is not compiled: 36 bytes for each (out and in of the
// conversion, of log_softmax, of its gradient and of the conversion back). FSDP2 copies what it has
// gathered into parameters, and gradients in 16 bits into a buffer of 32, on the queue that
// computes. Sequence parallelism cuts the second dimension, and collectives know the first alone: a
// copy brings it there or back. Sources: pytorch/torchtitan at 54e980db3 and 9dec370
// (models/llama/model.py, parallelisms/parallelize_llama.py, train.py), PyTorch's
// _fsdp_collectives.py and _functional_collectives.py.
Stack torchtitan(const char* name, const char* about) {
  return {.name = name,
          .about = about,
          .fit = "torchtitan",
          .eager = true,
          .loss_traffic = 36,
          .flash2 = true,
          .host = 100e-6,
          .separate_products = true,
          .gradient_passes = 1.5,
          .gather_passes = 2,
          .tensor_passes = 2,
          .logit_memory = 10,
          .runtime_memory = 1e9};
}

Stack op_selective(Stack stack) {
  stack.every_second_again = true;
  stack.activation_memory = 0.6;
  return stack;
}

Stack with_fused_norm(Stack stack) {
  stack.fused_norm = true;
  return stack;
}

// torch.compile fuses the ops between the products of a layer.
Stack compiled(Stack stack) {
  stack.eager = false;
  stack.traffic = 1.3;
  stack.host = 30e-6;
  return stack;
}

}  // namespace

const std::vector<Stack>& all_stacks() {
  static const std::vector<Stack> stacks = {
      {.name = "trireme", .about = "this program", .fit = "trireme", .memory_at_rate = false},
      // Eager PyTorch with the few fused kernels of Megatron. DeepSpeed sums whole 16-bit buckets
      // by an all-reduce, which has the bytes of a reduce-scatter in 32 bits, after every
      // micro-batch and while nothing else runs; each bucket is copied, divided and flattened.
      // Otherwise autograd accumulates them. Its pipeline partitions messages over the ranks of a
      // tensor group (runtime/pipe/engine.py, pipe_partitioned and grad_partitioned). The loss is
      // computed in fp32, kernel by kernel, as in Megatron-LM.
      {.name = "megatron-deepspeed",
       .about = "Megatron-DeepSpeed: eager PyTorch, blocking buckets of 16-bit gradients",
       .fit = "megatron-deepspeed",
       .traffic = 2,
       .loss_traffic = 60,
       .host = 200e-6,
       .whole_recomputation = true,
       .gradient_passes = 3,
       .blocking_gradients = true,
       .accumulation_traffic = 6,
       .blocking_sends = Stack::Blocking::always,
       .shared_sends = true,
       .gradient_memory = 0.5,
       .logit_memory = 6,
       .runtime_memory = 2e9},
      // The interleaved one of its two schedules sends while it computes; for 1f1b it sets
      // overlap_p2p_comm to false (megatron/training/arguments.py). The loss is in fp32, kernel by
      // kernel (megatron/core/tensor_parallel/cross_entropy.py).
      {.name = "megatron-lm",
       .about = "Megatron-LM with Transformer Engine",
       .fit = "megatron-lm",
       .traffic = 1.3,
       .loss_traffic = 60,
       .host = 60e-6,
       .whole_recomputation = true,
       .blocking_sends = Stack::Blocking::in_1f1b,
       .logit_memory = 6,
       .runtime_memory = 1e9},
      // Megatron-LM whose schedules are tables: a message is begun between passes, receives before
      // a pass of weight gradients or with those of the other direction (AMD-AGI/Primus,
      // primus/core/pipeline_parallel/scheduler and primuspipe/handlers/communication_handler.py).
      {.name = "primus",
       .about = "Primus: Megatron-LM with schedules of its own",
       .fit = "primus",
       .traffic = 1.3,
       .loss_traffic = 60,
       .host = 60e-6,
       .whole_recomputation = true,
       .blocking_sends = Stack::Blocking::in_1f1b,
       .early_receives = true,
       .logit_memory = 6,
       .runtime_memory = 1e9},
      torchtitan("torchtitan", "torchtitan: eager PyTorch, FSDP2"),
      op_selective(torchtitan("torchtitan-op",
                              "torchtitan with op-selective recomputation: every second product "
                              "runs again")),
      with_fused_norm(
          torchtitan("torchtitan-fused-norm", "torchtitan with norm_type fused_rmsnorm")),
      op_selective(with_fused_norm(torchtitan("torchtitan-op-fused-norm",
                                              "both: fused norms and op-selective recomputation"))),
      compiled(torchtitan("torchtitan-compile", "torchtitan with torch.compile")),
      op_selective(compiled(torchtitan("torchtitan-op-compile",
                                       "both: torch.compile and op-selective recomputation"))),
      {.name = "llm.q",
       .about = "llm.q: CUDA graphs, bf16 weights and moments without master weights",
       .fit = "llm.q",
       .gradient_memory = 0.5,
       .master_memory = 0,
       .moment_memory = 0.5},
      {.name = "llm.c", .about = "llm.c", .fit = "llm.c"},
  };
  return stacks;
}

const Stack& find_stack(const std::string& name) {
  std::string known;
  for (const Stack& stack : all_stacks()) {
    if (name == stack.name) return stack;
    known += (known.empty() ? "" : ", ") + std::string(stack.name);
  }
  fail_input("--stack {}: not a known software stack ({})", name, known);
}

}  // namespace trireme
