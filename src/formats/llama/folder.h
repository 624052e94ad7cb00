// Models in folders as Meta publishes Llama.
#pragma once

#include "formats/foreign_model.h"

namespace trireme {

// A folder as Meta publishes Llama: params.json and consolidated.NN.pth, one for each rank of
// tensor parallelism. What params.json does not say is assumed, and the note says what.
bool is_llama_folder(const fs::path& folder);
ForeignModel open_llama_folder(const fs::path& folder, const ModelSettings& settings = {});

}  // namespace trireme
