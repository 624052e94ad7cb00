// Models in Meta's Llama format.
#pragma once

#include "formats/foreign_model.h"

namespace trireme {

// Meta's Llama format: params.json and one consolidated.NN.pth per tensor-parallel rank. Values
// missing in params.json are assumed; the note lists them.
bool is_llama_folder(const fs::path& folder);
ForeignModel open_llama_folder(const fs::path& folder, const ModelSettings& settings = {});

}  // namespace trireme
