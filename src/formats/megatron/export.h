// Exports checkpoints as Megatron-LM folders, with one file per tensor-parallel rank.
#pragma once

#include "formats/conversion.h"
#include "formats/megatron/writer.h"

namespace trireme {

// Writes to `to`, which must be empty or not exist, a few rows of a tensor at a time. Of the
// options, only the type of the weights and the reading threads apply. `arguments` describe
// the model (importers/megatron/arguments.h). Refused (exit code 2): see
// write_megatron_folder.
ConversionReport export_megatron(const fs::path& checkpoint, const fs::path& to,
                                 const MegatronLayout& layout, const TorchDict& arguments,
                                 const ExportOptions& options);

}  // namespace trireme
