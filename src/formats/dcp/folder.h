// Folders of torch.distributed.checkpoint (DCP): a .metadata and files of items, each of which is
// in torch.save format.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "formats/dcp/metadata.h"
#include "formats/torch/file.h"

namespace trireme {

bool is_dcp_folder(const fs::path& folder);

class DcpFolder {
 public:
  // Refused (exit code 2): see parse_dcp_metadata; missing or truncated files.
  explicit DcpFolder(const fs::path& folder);

  const std::string& where() const { return where_; }
  const DcpMetadata& metadata() const { return metadata_; }
  std::uint64_t bytes() const { return bytes_; }  // of all files
  const DcpTensor* find(std::string_view name) const;

  // Opens the torch.save item that contains a chunk or a value. Refused (exit code 2): see
  // parse_torch_file; a chunk that contradicts the .metadata. Thread-safe.
  std::shared_ptr<const TorchFile> open(const DcpTensor& tensor, const DcpChunk& chunk) const;
  // Returns null if there is no such value.
  std::shared_ptr<const TorchFile> open(std::string_view value) const;
  // A number stored as a value or as a one-element tensor; nullopt if it is missing or of another
  // kind.
  std::optional<double> number(std::string_view name) const;

 private:
  std::shared_ptr<const TorchFile> open(const DcpItem& item, std::string_view name) const;

  std::string where_;
  DcpMetadata metadata_;
  std::vector<std::shared_ptr<const TorchBytes>> files_;
  std::uint64_t bytes_ = 0;
  std::map<std::string_view, const DcpTensor*> tensors_;
  std::map<std::string_view, const DcpValue*> values_;
  // Cache of recently opened items by file and offset, to parse and check each only once.
  using Place = std::pair<std::size_t, std::uint64_t>;
  mutable std::mutex mutex_;
  mutable std::map<Place, std::shared_ptr<const TorchFile>> opened_;
};

}  // namespace trireme
