// Our checkpoints as folders as Meta publishes Llama, with one file for each rank of tensor
// parallelism.
#pragma once

#include "formats/conversion.h"

namespace trireme {

// Writes into `to`, which must be empty or not exist, a few rows of a tensor at a time. Of the
// options count the type of the weights and who reads.
// The tokenizer's file comes along where it is one that Meta's programs read. Refused (exit code
// 2): see write_llama_folder.
ConversionReport export_llama(const fs::path& checkpoint, const fs::path& to, int parts,
                              const ExportOptions& options);

}  // namespace trireme
