// Writes Meta's Llama format: params.json and consolidated.NN.pth.
#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "config/config.h"
#include "tensors/mapping.h"

namespace trireme {

struct LlamaFolderOptions {
  ModelConfig model;
  int parts = 1;               // number of files, one per tensor-parallel rank
  std::optional<DType> dtype;  // nullopt: as in the assembler
};

// The assembler provides the tensors of a Llama under Hugging Face's mapping. Returns a note on
// what the files cannot express, or "". Refused (exit code 2): see llama_params; a number of parts
// that does not divide the model.
std::string write_llama_folder(const fs::path& to, const LlamaFolderOptions& options,
                               const TensorAssembler& assembler);

}  // namespace trireme
