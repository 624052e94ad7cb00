// Files that torch.load reads, with weights_only=True where no object is in them: dictionaries,
// lists and plain values with tensors in them. The values are declared first; the bytes of the
// tensors then arrive in their order.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "formats/torch/zip_writer.h"

namespace trireme {

struct TorchTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;

  std::uint64_t bytes() const;
  std::vector<std::int64_t> strides() const;
};

struct TorchValue;
struct TorchItem;
using TorchDict = std::vector<TorchItem>;
using TorchList = std::vector<TorchValue>;
struct TorchTuple {
  TorchList items;
};
// An object of a class that is made without arguments: argparse.Namespace, which
// torch.load(weights_only=True) does not read.
struct TorchObject {
  std::string module, name;
  TorchDict attributes;
};

struct TorchValue {
  std::variant<std::monostate, bool, std::int64_t, double, std::string, TorchTensor, TorchList,
               TorchTuple, TorchDict, TorchObject>
      value;  // std::monostate: None
};

struct TorchItem {
  std::string key;
  TorchValue value;
};

class TorchWriter {
 public:
  // Creates the file, as PATH.tmp until it is finished. Tensors count in the order in which they
  // occur in `root`. Each has a storage of its own.
  TorchWriter(const fs::path& path, const TorchValue& root, bool always_wide = false);
  // Into another file, from a byte of it on. That file is not finished by this object.
  TorchWriter(NewFile& file, std::uint64_t begin, const TorchValue& root);

  // Writes bytes [offset, offset + count) of a tensor, one tensor after the other and without gaps.
  void write(std::size_t tensor, std::uint64_t offset, const void* bytes, std::uint64_t count);

  // Checks that all tensors were written, makes the file durable, closes and renames it. Without
  // it, no file remains. Returns how many bytes were written.
  std::uint64_t finish();

 private:
  void begin(const TorchValue& root);
  void begin_next();

  ZipWriter zip_;
  std::string folder_;
  std::vector<std::uint64_t> bytes_;  // by tensor
  std::size_t next_ = 0;              // the tensor whose entry begins next
  std::uint64_t written_ = 0;         // of the one before it
};

}  // namespace trireme
