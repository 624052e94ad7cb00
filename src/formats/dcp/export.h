// Checkpoints of ours as folders of torch.distributed.checkpoint, weights and the states of AdamW.
#pragma once

#include "formats/conversion.h"

namespace trireme {

enum class DcpNames : std::uint8_t {
  huggingface,     // as get_state_dict of torch.distributed.checkpoint.state_dict names them
  torchtitan,      // of Llama, as release 0.3 names them
  torchtitan_0_2,  // as releases before it do: queries, keys and values apart, a head named output
  torchtitan_0_1,  // the same, below the key "model"
};

// Writes a folder that dcp.load loads, and a config.json, which says what model it is; `to` must be
// empty or not exist. Of the options count the type of the weights, the size of files and who
// reads. Memory: a few rows of a tensor at a time.
ConversionReport export_dcp(const fs::path& checkpoint, const fs::path& to, DcpNames names,
                            const ExportOptions& options);

}  // namespace trireme
