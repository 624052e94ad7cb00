// Folders that torch.distributed.checkpoint loads. Items arrive one after the other; the .metadata
// that makes the folder whole comes last.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "formats/torch/writer.h"

namespace trireme {

// The keys that lead to an item in the state that is saved; numbers are places in lists. Joined by
// dots they are the item's name.
using DcpPath = std::vector<std::variant<std::string, std::int64_t>>;
std::string dcp_name(const DcpPath& path);

class DcpWriter {
 public:
  // Writes __0_0.distcp and, where a file would become larger, __0_1.distcp and so on. An item lies
  // in one file.
  DcpWriter(const fs::path& folder, std::uint64_t max_file_bytes);
  ~DcpWriter();

  // Begins a tensor; its bytes follow in order, all of them before the next item.
  void begin(const DcpPath& path, const TorchTensor& tensor);
  void write(const void* bytes, std::uint64_t count);
  // Anything but a tensor.
  void add(const DcpPath& path, const TorchValue& value);
  // The tensor that came last under a second name.
  void add_copy(const DcpPath& path);

  // Writes the .metadata. Without it the folder is not a checkpoint.
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
