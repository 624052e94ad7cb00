// Writes folders that torch.distributed.checkpoint can load. Items are written sequentially; the
// .metadata, which completes the folder, comes last.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "formats/torch/writer.h"

namespace trireme {

// Keys that lead to an item in the saved state; numbers are list indices. Joined with dots, they
// form the item's name.
using DcpPath = std::vector<std::variant<std::string, std::int64_t>>;
std::string dcp_name(const DcpPath& path);

class DcpWriter {
 public:
  // Writes __0_0.distcp and, when the size limit is reached, __0_1.distcp etc. An item is never
  // split across files.
  DcpWriter(const fs::path& folder, std::uint64_t max_file_bytes);
  ~DcpWriter();

  // Begins a tensor; all its bytes must be written, in order, before the next item.
  void begin(const DcpPath& path, const TorchTensor& tensor);
  void write(const void* bytes, std::uint64_t count);
  // Adds an item that is not a tensor.
  void add(const DcpPath& path, const TorchValue& value);
  // Adds the last tensor again under a second name.
  void add_copy(const DcpPath& path);

  // Writes the .metadata. Without this call the folder is not a checkpoint.
  void finish();

 private:
  struct Item {
    DcpPath path;
    std::string file;
    std::uint64_t begin = 0, bytes = 0;
    std::optional<TorchTensor> tensor;
  };
  void begin_item(const DcpPath& path, const TorchValue& value, std::uint64_t bytes);
  void end_item();
  void end_file();
  std::string metadata() const;

  fs::path folder_;
  std::uint64_t max_file_bytes_;
  std::optional<NewFile> file_;
  std::string file_name_;
  int files_ = 0;
  std::uint64_t at_ = 0, written_ = 0;
  std::optional<TorchWriter> item_;
  std::vector<Item> items_;
};

}  // namespace trireme
