// Our checkpoints as Megatron-LM folders, with one file for each rank of tensor parallelism.
#pragma once

#include "formats/conversion.h"
#include "formats/megatron/writer.h"

namespace trireme {

// Writes into `to`, which must be empty or not exist, a few rows of a tensor at a time. Of the
// options count the type of the weights and who reads.
// `arguments` say what model it is (importers/megatron/arguments.h). Refused (exit code 2): see
// write_megatron_folder.
ConversionReport export_megatron(const fs::path& checkpoint, const fs::path& to,
                                 const MegatronLayout& layout, const TorchDict& arguments,
                                 const ExportOptions& options);

}  // namespace trireme
