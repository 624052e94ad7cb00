// The table of stacks.
#include "timing/stack.h"

#include <fmt/format.h>

#include "base/error.h"

namespace trireme {

const std::vector<Stack>& all_stacks() {
  static const std::vector<Stack> stacks = {
      {.name = "trireme", .about = "this program", .fit = "trireme"},
      // Eager PyTorch with the few fused kernels of Megatron. DeepSpeed sums whole 16-bit buckets
      // by an all-reduce, which has the bytes of a reduce-scatter in 32 bits, after every
      // micro-batch and while nothing else runs; each bucket is copied, divided and flattened.
      {.name = "megatron-deepspeed",
       .about = "Megatron-DeepSpeed: eager PyTorch, blocking buckets of 16-bit gradients",
       .fit = "megatron-deepspeed",
       .traffic = 2,
       .host = 200e-6,
       .whole_recomputation = true,
       .gradient_passes = 3,
       .blocking_gradients = true,
       .blocking_sends = Stack::Blocking::always,
       .gradient_memory = 0.5,
       .logit_memory = 6,
       .runtime_memory = 2e9},
      // Of its own two schedules the interleaved one sends while it computes; for 1f1b it sets
      // overlap_p2p_comm to false (megatron/training/arguments.py).
      {.name = "megatron-lm",
       .about = "Megatron-LM with Transformer Engine",
       .fit = "megatron-lm",
       .traffic = 1.3,
       .host = 60e-6,
       .whole_recomputation = true,
       .blocking_sends = Stack::Blocking::in_1f1b,
       .logit_memory = 6,
       .runtime_memory = 1e9},
      {.name = "torchtitan",
       .about = "torchtitan: eager PyTorch, FSDP2",
       .fit = "torchtitan",
       .traffic = 3,
       .host = 100e-6,
       .whole_recomputation = true,
       .logit_memory = 10,
       .runtime_memory = 1e9},
      {.name = "torchtitan-op",
       .about = "torchtitan with op-selective recomputation: every second product runs again",
       .fit = "torchtitan",
       .traffic = 3,
       .host = 100e-6,
       .products_again = 0.5,
       .activation_memory = 0.6,
       .logit_memory = 10,
       .runtime_memory = 1e9},
      {.name = "torchtitan-op-compile",
       .about = "the same with torch.compile, which fuses what lies between products",
       .fit = "torchtitan",
       .traffic = 1.3,
       .host = 30e-6,
       .products_again = 0.5,
       .activation_memory = 0.6,
       .logit_memory = 10,
       .runtime_memory = 1e9},
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
  fail_input("--stack {}: not a software stack that the program knows ({})", name, known);
}

}  // namespace trireme
