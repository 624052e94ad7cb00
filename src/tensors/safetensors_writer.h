// Streaming writer for safetensors files. All tensors are declared first, for the header; their
// bytes can then be written in any order and in pieces of any size.
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
  // Creates PATH.tmp, renamed to PATH by finish(), and writes the header: `__metadata__` first,
  // padded with spaces to a multiple of 8. Tensors with wider elements are placed first, so that
  // each is aligned to its element; indices below refer to the given order. Names must be
  // unique.
  SafetensorsWriter(const fs::path& path, std::vector<SafetensorsTensor> tensors,
                    const std::map<std::string, std::string>& metadata = {});

  // Writes bytes [offset, offset + count) of a tensor. Thread-safe for disjoint
  // ranges.
  void write(std::size_t tensor, std::uint64_t offset, const void* bytes, std::uint64_t count);

  // Checks that as many bytes were written as declared, syncs, closes and renames the file. Without
  // this call, no file remains.
  void finish();

  // The written length field and header, and the size of the finished file.
  const std::string& header() const { return header_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  std::uint64_t tensor_bytes(std::size_t tensor) const { return bytes_[tensor]; }

 private:
  NewFile file_;
  std::string header_;
  std::vector<std::uint64_t> begin_, bytes_;  // by given index; begin from the file's start
  std::uint64_t file_bytes_ = 0;
  std::atomic<std::uint64_t> written_{0};
};

}  // namespace trireme
