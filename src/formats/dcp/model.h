// Models in folders of torch.distributed.checkpoint.
#pragma once

#include "formats/foreign_model.h"

namespace trireme {

// A folder as accelerate leaves it (FSDP with SHARDED_STATE_DICT): the model and the optimizer in
// folders of torch.distributed.checkpoint of their own. Empty paths where they are not there.
// Refused (exit code 2): several models.
struct SplitDcpFolder {
  fs::path model, optimizer;
};
SplitDcpFolder find_split_dcp_folder(const fs::path& folder);

// Such a folder, or one of torch.distributed.checkpoint with torchtitan's names of a Llama or with
// Hugging Face's, and the states of AdamW where they are there. `config` says what model it is: a
// TOML file of Trireme or a config.json of Hugging Face; "": the config.json in the folder, or the
// settings. Experts lie apart or, as transformers has them in memory, in one tensor.
ForeignModel open_dcp_folder(const fs::path& folder, const ModelSettings& settings = {},
                             const fs::path& config = {});

}  // namespace trireme
