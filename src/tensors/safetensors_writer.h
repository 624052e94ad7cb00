// safetensors files: a streaming writer. All tensors are declared first, so that the header can be
// written; their bytes then arrive in any order and in pieces of any size.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"

namespace trireme {

struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
};

class SafetensorsWriter {
 public:
  // Creates the file, as PATH.tmp until it is finished, and writes its header: `__metadata__`
  // first, padded with spaces to a multiple of 8. Tensors with wide elements are laid before those
  // with narrow ones, so that each is aligned to its element; positions below refer to the order
  // given here. Names must be unique.
  SafetensorsWriter(const fs::path& path, std::vector<SafetensorsTensor> tensors,
                    const std::map<std::string, std::string>& metadata = {});

  // Writes bytes [offset, offset + count) of a tensor. Safe to call from several threads for
  // distinct bytes.
  void write(std::size_t tensor, std::uint64_t offset, const void* bytes, std::uint64_t count);

  // Checks that as many bytes were written as were declared, makes them durable, closes and
  // renames the file. Without it, no file remains.
  void finish();

  // Length word and header as written, and the size of the finished file.
  const std::string& header() const { return header_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  std::uint64_t tensor_bytes(std::size_t tensor) const { return bytes_[tensor]; }

 private:
  NewFile file_;
  std::string header_;
  std::vector<std::uint64_t> begin_, bytes_;  // by position given; begin from the file's start
  std::uint64_t file_bytes_ = 0;
  std::atomic<std::uint64_t> written_{0};
};

}  // namespace trireme
