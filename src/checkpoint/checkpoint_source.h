// Adapts a checkpoint as a TensorSource for conversion to other formats.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/progress.h"
#include "checkpoint/reader.h"
#include "tensors/mapping.h"

namespace trireme {

// Not thread-safe.
class CheckpointSource : public TensorSource {
 public:
  struct Options {
    ThreadPool* pool = nullptr;  // for reading; null: the calling thread
    FileProgress* progress = nullptr;
    std::stop_token stopped;  // aborts a read with an error
  };
  CheckpointSource(CheckpointReader& reader, Options options)
      : reader_(reader), options_(std::move(options)) {}

  DType check(const std::string& name, const Shape& shape) const override;
  void read(const std::string& name, const Rectangle& part, std::byte* dst) override;

 private:
  void read_part(const StoredTensor& tensor, const Rectangle& part, std::byte* dst);
  void read_region(const StoredTensor& tensor, const Region& region, std::byte* dst);

  CheckpointReader& reader_;
  Options options_;
  std::string kept_;
  std::vector<std::byte> memory_;
};

}  // namespace trireme
