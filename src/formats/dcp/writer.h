// Writes folders that torch.distributed.checkpoint can load. Items are written sequentially; the
// .metadata, which completes the folder, comes last.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "formats/torch/pickle_writer.h"
#include "formats/torch/writer.h"

namespace trireme {

// Keys that lead to an item in the saved state; numbers are list indices. Joined with dots, they
// form the item's name.
using DcpPath = std::vector<std::variant<std::string, std::int64_t>>;
std::string dcp_name(const DcpPath& path);

class DcpWriter {
 public:
  // Writes __0_0.distcp and, when the size limit is reached, __0_1.distcp etc. A part of a tensor
  // is never split across files.
  DcpWriter(const fs::path& folder, std::uint64_t max_file_bytes);
  ~DcpWriter();

  // Begins a tensor; all its bytes must be written, in order, before the next item.
  void begin(const DcpPath& path, const TorchTensor& tensor);
  // Declares a tensor to be written in parts, each of which a reader can load alone. The parts must
  // cover it; all bytes of one must be written, in order, before the next.
  void begin_parts(const DcpPath& path, const TorchTensor& tensor);
  void begin_part(const std::vector<std::int64_t>& offsets, const std::vector<std::int64_t>& sizes);
  void write(const void* bytes, std::uint64_t count);
  // Adds an item that is not a tensor.
  void add(const DcpPath& path, const TorchValue& value);
  // Adds the last tensor again under a second name.
  void add_copy(const DcpPath& path);

  // Writes the .metadata. Without this call the folder is not a checkpoint.
  void finish();

 private:
  struct Part {
    std::vector<std::int64_t> offsets, sizes;  // within the tensor
    std::string file;
    std::uint64_t begin = 0, bytes = 0;
  };
  struct Item {
    DcpPath path;
    std::optional<TorchTensor> tensor;
    std::vector<Part> parts;  // a value that is not a tensor has one
  };
  void begin_file_part(Part part, const TorchValue& value, std::uint64_t bytes);
  void end_part();
  static void put_tensor(PickleText& text, const Item& item);
  static void put_place(PickleText& text, const Item& item, std::size_t part);
  void end_file();
  std::string metadata() const;

  fs::path folder_;
  std::uint64_t max_file_bytes_;
  std::optional<NewFile> file_;
  std::string file_name_;
  int files_ = 0;
  std::uint64_t at_ = 0, written_ = 0;
  std::optional<TorchWriter> part_;
  std::vector<Item> items_;
};

}  // namespace trireme
