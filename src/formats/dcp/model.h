// Models in torch.distributed.checkpoint (DCP) folders.
#pragma once

#include "formats/foreign_model.h"

namespace trireme {

// A folder written by accelerate (FSDP with SHARDED_STATE_DICT), with model and optimizer in
// separate torch.distributed.checkpoint folders. Paths are empty if not found. Refused (exit code
// 2): several models.
struct SplitDcpFolder {
  fs::path model, optimizer;
};
SplitDcpFolder find_split_dcp_folder(const fs::path& folder);

// Opens such a folder or a DCP folder with torchtitan's Llama names or Hugging Face names, and
// AdamW states if present. `config` describes the model: a Trireme TOML file or a Hugging Face
// config.json; "": the folder's config.json, or the settings. Experts may be stored separately or
// fused into one tensor, as transformers has them in memory.
ForeignModel open_dcp_folder(const fs::path& folder, const ModelSettings& settings = {},
                             const fs::path& config = {});

}  // namespace trireme
