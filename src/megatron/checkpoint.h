// Legacy checkpoints of Megatron-LM as models of ours: the arguments that they carry are read as
// the flags of the run that wrote them.
#pragma once

#include "interop/foreign_model.h"

namespace trireme::megatron {

// Refused (exit code 2): see MegatronFolder; arguments that our models cannot compute.
ForeignModel open_megatron_folder(const fs::path& folder, const ModelSettings& settings = {});

}  // namespace trireme::megatron
