// The .metadata of a torch.distributed.checkpoint (DCP) folder: its tensors and values, their
// files, and how tensors are sharded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/torch/element_type.h"

namespace trireme {

inline constexpr const char* dcp_metadata_file = ".metadata";

// A torch.save file embedded in a file of the folder.
struct DcpItem {
  std::size_t file = 0;  // index into DcpMetadata::files
  std::uint64_t begin = 0, bytes = 0;
};

// A rectangular shard of a tensor.
struct DcpChunk {
  std::vector<std::int64_t> offsets, sizes;
  DcpItem item;

  std::int64_t count() const;
};

struct DcpTensor {
  std::string name;
  const TorchType* type = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<DcpChunk> chunks;

  std::int64_t count() const;
};

// A non-tensor item: a number, a string, a list.
struct DcpValue {
  std::string name;
  DcpItem item;
};

struct DcpMetadata {
  std::vector<std::string> files;  // sorted
  std::vector<DcpTensor> tensors;  // in the order of the saved state
  std::vector<DcpValue> values;
  std::string version;  // "" if unknown
};

// `name` is the file's name for messages. Refused (exit code 2): other pickles, unknown versions,
// shards outside their tensor or without a location, locations without a shard, file names outside
// of the folder, compressed items.
DcpMetadata parse_dcp_metadata(std::string_view text, const std::string& name);

// Why the chunks do not cover every element of the tensor exactly once, or "" if they do.
std::string dcp_tiling_fault(const DcpTensor& tensor);

}  // namespace trireme
