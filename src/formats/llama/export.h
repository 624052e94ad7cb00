// Exports checkpoints in Meta's Llama format, with one file per tensor-parallel
// rank.
#pragma once

#include "formats/conversion.h"

namespace trireme {

// Writes to `to`, which must be empty or not exist, a few rows of a tensor at a time. Of
// the options, only the type of the weights and the reading threads apply. The tokenizer
// file is copied if Meta's programs can read it. Refused (exit code 2): see
// write_llama_folder.
ConversionReport export_llama(const fs::path& checkpoint, const fs::path& to, int parts,
                              const ExportOptions& options);

}  // namespace trireme
