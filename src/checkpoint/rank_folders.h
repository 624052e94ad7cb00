// Checkpoints of ours as folders with one file for each rank of tensor parallelism: Megatron-LM's
// and Meta's.
#pragma once

#include "checkpoint/huggingface.h"
#include "interop/megatron_writer.h"

namespace trireme {

// Both write into `to`, which must be empty or not exist, a few rows of a tensor at a time. Of the
// options count the type of the weights and who reads.

// `arguments` say what model it is (megatron/arguments.h). Refused (exit code 2): see
// write_megatron_folder.
ConversionReport export_megatron(const fs::path& checkpoint, const fs::path& to,
                                 const MegatronLayout& layout, const TorchDict& arguments,
                                 const ExportOptions& options);

// The tokenizer's file comes along where it is one that Meta's programs read. Refused (exit code
// 2): see write_llama_folder.
ConversionReport export_llama(const fs::path& checkpoint, const fs::path& to, int parts,
                              const ExportOptions& options);

}  // namespace trireme
