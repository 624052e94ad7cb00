// DeepSpeed checkpoints of Hugging Face models, as written by its Trainer and by accelerate:
// mp_rank_00_model_states.pt and the ZeRO ranks' files.
#pragma once

#include "formats/foreign_model.h"

namespace trireme {

// Whether the DeepSpeed step opened for this folder lacks Megatron's arguments.
bool is_deepspeed_of_others(const fs::path& folder);

// `config` is as for open_dcp_folder; without it, also the config.json next to the step's folder.
// Uses the ZeRO ranks' weights and moments if present, else the model's weights. Refused (exit code
// 2): several model-parallel ranks, experts in separate files, tensors that a model of that
// configuration does not have.
ForeignModel open_deepspeed_of_others(const fs::path& folder, const ModelSettings& settings,
                                      const fs::path& config);

}  // namespace trireme
