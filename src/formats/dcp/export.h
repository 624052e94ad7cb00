// Exports checkpoints, weights and AdamW states, as torch.distributed.checkpoint (DCP) folders.
#pragma once

#include "formats/conversion.h"

namespace trireme {

enum class DcpNames : std::uint8_t {
  huggingface,     // names of get_state_dict in torch.distributed.checkpoint.state_dict
  torchtitan,      // Llama names of release 0.3
  torchtitan_0_2,  // earlier releases: separate queries, keys and values, head named output
  torchtitan_0_1,  // the same, under the key "model"
};

// Writes a folder that dcp.load can load, and a config.json that identifies the model; `to` must be
// empty or not exist. Of the options, only the type of the weights, the file size and the reading
// threads apply. Memory: a few rows of a tensor at a time.
ConversionReport export_dcp(const fs::path& checkpoint, const fs::path& to, DcpNames names,
                            const ExportOptions& options);

}  // namespace trireme
