// Models in Hugging Face folders.
#pragma once

#include "formats/foreign_model.h"

namespace trireme {

// A folder of Hugging Face's: config.json and weights of safetensors or torch.save.
ForeignModel open_huggingface_folder(const fs::path& folder, const ModelSettings& settings = {});

}  // namespace trireme
