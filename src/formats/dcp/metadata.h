// The .metadata of a folder of torch.distributed.checkpoint (DCP): which tensors and other values
// the folder holds, in which files, and how the tensors are cut.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/torch/element_type.h"

namespace trireme {

inline constexpr const char* dcp_metadata_file = ".metadata";

// A file of torch.save within a file of the folder.
struct DcpItem {
  std::size_t file = 0;  // position in DcpMetadata::files
  std::uint64_t begin = 0, bytes = 0;
};

// A rectangle of a tensor.
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

// Anything else: a number, a text, a list.
struct DcpValue {
  std::string name;
  DcpItem item;
};

struct DcpMetadata {
  std::vector<std::string> files;  // sorted
  std::vector<DcpTensor> tensors;  // in the order of the state that was saved
  std::vector<DcpValue> values;
  std::string version;  // "" where it is not told
};

// `name` is the file's name for messages. Refused (exit code 2): pickles of anything else, versions
// that are not known, rectangles that leave their tensor or have no place in a file, places without
// a rectangle, names of files that leave the folder, items that are compressed.
DcpMetadata parse_dcp_metadata(std::string_view text, const std::string& name);

// Why the chunks do not hold every element of the tensor exactly once, or "" if they do.
std::string dcp_tiling_fault(const DcpTensor& tensor);

}  // namespace trireme
