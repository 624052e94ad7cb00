// Checkpoints of DeepSpeed whose model is one of Hugging Face's, as its Trainer and accelerate
// leave them: mp_rank_00_model_states.pt and the files of ZeRO's ranks.
#pragma once

#include "formats/foreign_model.h"

namespace trireme {

// Whether the step of DeepSpeed that is opened for this folder lacks Megatron's arguments.
bool is_deepspeed_of_others(const fs::path& folder);

// `config` as for open_dcp_folder; without it also the config.json next to the folder of the step.
// Weights and moments of ZeRO's ranks where they are there, else the weights of the model. Refused
// (exit code 2): several ranks of model parallelism, experts in files of their own, tensors that a
// model of that configuration does not have.
ForeignModel open_deepspeed_of_others(const fs::path& folder, const ModelSettings& settings,
                                      const fs::path& config);

}  // namespace trireme
