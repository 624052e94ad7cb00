// Exports checkpoints as Megatron-LM folders, with one file per tensor-parallel rank, and as
// Megatron-Core's distributed checkpoints.
#pragma once

#include <functional>

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

// The contents of common.pt for a checkpoint, with Adam's states or without.
using TorchDistCommon =
    std::function<TorchDict(const Config&, const CheckpointState&, bool with_states)>;

// Writes a distributed checkpoint of Megatron-Core, with Adam's states if there are any. Of the
// options, the type of the weights, the size of files and the reading threads apply. Refused (exit
// code 2): see write_torch_dist_folder.
ConversionReport export_torch_dist(const fs::path& checkpoint, const fs::path& to,
                                   const TorchDistCommon& common, const ExportOptions& options);

}  // namespace trireme
