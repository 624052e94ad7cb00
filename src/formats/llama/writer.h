// Writes folders as Meta publishes Llama: params.json and consolidated.NN.pth.
#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "config/config.h"
#include "tensors/mapping.h"

namespace trireme {

struct LlamaFolderOptions {
  ModelConfig model;
  int parts = 1;               // files, one for each rank of tensor parallelism
  std::optional<DType> dtype;  // none: as the assembler has them
};

// The assembler makes the tensors of Hugging Face's mapping of a Llama. Returns what the user
// should know of what the files cannot say, or "". Refused (exit code 2): see
// llama_params; parts that do not divide the model.
std::string write_llama_folder(const fs::path& to, const LlamaFolderOptions& options,
                               const TensorAssembler& assembler);

}  // namespace trireme
