// Writes files for torch.load, with weights_only=True if they contain no objects: dictionaries,
// lists and plain values that contain tensors. Values are declared first; the tensors' bytes are
// then written in order.
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
// A dictionary whose keys are the positions of its values: 0, 1, ...
struct TorchNumbered {
  TorchList values;
};
// An object constructed without arguments, such as argparse.Namespace, which
// torch.load(weights_only=True) refuses.
struct TorchObject {
  std::string module, name;
  TorchDict attributes;
};

struct TorchValue {
  std::variant<std::monostate, bool, std::int64_t, double, std::string, TorchTensor, TorchList,
               TorchTuple, TorchDict, TorchNumbered, TorchObject>
      value;  // std::monostate: None
};

struct TorchItem {
  std::string key;
  TorchValue value;
};

class TorchWriter {
 public:
  // Creates PATH.tmp, renamed to PATH by finish(). Tensors are numbered in order of their
  // occurrence in `root`. Each has its own storage.
  TorchWriter(const fs::path& path, const TorchValue& root, bool always_wide = false);
  // Writes into another file from offset `begin` on. This object does not finish that file.
  TorchWriter(NewFile& file, std::uint64_t begin, const TorchValue& root);

  // Writes bytes [offset, offset + count) of a tensor; tensors come in order, without gaps.
  void write(std::size_t tensor, std::uint64_t offset, const void* bytes, std::uint64_t count);

  // Checks that all tensors were written, syncs, closes and renames the file. Without this call, no
  // file remains. Returns the number of bytes written.
  std::uint64_t finish();

 private:
  void begin(const TorchValue& root);
  void begin_next();

  ZipWriter zip_;
  std::string folder_;
  std::vector<std::uint64_t> bytes_;  // by tensor
  std::size_t next_ = 0;              // tensor whose entry begins next
  std::uint64_t written_ = 0;         // bytes written of the previous one
};

}  // namespace trireme
