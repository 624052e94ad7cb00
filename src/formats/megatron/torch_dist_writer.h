// Writes Megatron-Core distributed checkpoints (--ckpt-format torch_dist), which are loaded on any
// layout: weights, and Adam states as its distributed optimizer saves them with
// --dist-ckpt-optim-fully-reshardable.
#pragma once

#include <optional>

#include "base/file.h"
#include "config/config.h"
#include "formats/torch/writer.h"
#include "tensors/mapping.h"

namespace trireme {

struct TorchDistOptions {
  ModelConfig model;
  TorchDict common;            // contents of common.pt
  std::int64_t iteration = 0;  // of the run that produced the weights
  bool with_states = false;    // whether to write the moments that the assembler provides
  std::optional<DType> dtype;  // of the weights; nullopt: as in the assembler
  std::uint64_t max_file_bytes = 0;
};

// Whether a tensor of the folder holds those of all layers, as Megatron-Core has it unless only
// some of the layers have experts.
bool stacks_layers(const ModelConfig& model);

// Writes the folder of a step and latest_checkpointed_iteration.txt, which names it: iter_0000100
// with states, from which Megatron continues; else release, from which it starts at step 0. The
// assembler provides the tensors of megatron_mapping(model) and, after them, those of
// add_moments(..., moment_name). Refused (exit code 2): tensors without a name in Megatron-Core's
// models.
void write_torch_dist_folder(const fs::path& to, const TorchDistOptions& options,
                             const TensorAssembler& assembler);

}  // namespace trireme
