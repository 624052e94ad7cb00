// Models in Hugging Face folders.
#pragma once

#include "formats/foreign_model.h"

namespace trireme {

// Opens a Hugging Face folder: config.json, and weights in safetensors or torch.save format.
ForeignModel open_huggingface_folder(const fs::path& folder, const ModelSettings& settings = {});

}  // namespace trireme
