// Writes legacy checkpoints of Megatron-LM (--ckpt-format torch): weights without the states of an
// optimizer, one file for each rank of tensor and pipeline parallelism.
#pragma once

#include <optional>

#include "base/file.h"
#include "config/config.h"
#include "formats/megatron/names.h"
#include "formats/torch/writer.h"
#include "tensors/mapping.h"

namespace trireme {

struct MegatronLayout {
  int tp = 1, pp = 1;
  MegatronKind kind = MegatronKind::transformer_engine;
};

// Rows of the embedding in all ranks: Megatron pads the vocabulary to a multiple of
// model.vocab_multiple x tp.
std::int64_t megatron_vocabulary(const ModelConfig& model, int tp);

struct MegatronFolderOptions {
  ModelConfig model;
  MegatronLayout layout;
  TorchDict arguments;         // of the run: "args"
  std::int64_t iteration = 0;  // of the run that the weights come from
  std::optional<DType> dtype;  // none: as the assembler has them
};

// Writes `to`/release and latest_checkpointed_iteration.txt, which names it: Megatron begins at
// step 0 with such weights. The assembler makes the tensors of same_tensors(model). Refused (exit
// code 2): layouts that do not divide the model, tensors for which the kind of model has no name.
void write_megatron_folder(const fs::path& to, const MegatronFolderOptions& options,
                           const TensorAssembler& assembler);

}  // namespace trireme
