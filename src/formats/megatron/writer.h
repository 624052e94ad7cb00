// Writes legacy Megatron-LM checkpoints (--ckpt-format torch): weights without optimizer states,
// one file per tensor- and pipeline-parallel rank.
#pragma once

#include <optional>

#include "base/file.h"
#include "config/config.h"
#include "formats/megatron/names.h"
#include "formats/torch/writer.h"
#include "tensors/mapping.h"

namespace trireme {

// A bias that excludes a word of the padding from predictions, representable in 16 bits.
inline constexpr float never_predicted = -10'000;

struct MegatronLayout {
  int tp = 1, pp = 1;
  MegatronKind kind = MegatronKind::transformer_engine;
};

// Padded vocabulary size: Megatron pads the vocabulary to a multiple of model.vocab_multiple x
// tp.
std::int64_t megatron_vocabulary(const ModelConfig& model, int tp);

struct MegatronFolderOptions {
  ModelConfig model;
  MegatronLayout layout;
  TorchDict arguments;         // the run's arguments, saved as "args"
  std::int64_t iteration = 0;  // of the run that produced the weights
  std::optional<DType> dtype;  // nullopt: as in the assembler
};

// Writes `to`/release and latest_checkpointed_iteration.txt, which names it: Megatron starts at
// step 0 from such weights. The assembler provides the tensors of megatron_mapping(model). Refused
// (exit code 2): layouts that do not divide the model, tensors without a name in this model kind.
void write_megatron_folder(const fs::path& to, const MegatronFolderOptions& options,
                           const TensorAssembler& assembler);

}  // namespace trireme
