// Reads checkpoints, written by any number of processes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <trireme/export.h>

namespace trireme::v1 {

struct TensorInfo {
  std::string name;   // "layers.3.mlp.up.weight", "optimizer.first_moment.layers.3.mlp.up.weight"
  std::string dtype;  // "f32", "bf16", ...
  std::vector<std::int64_t> shape;  // of the whole tensor
};

// A checkpoint on disk, read on demand. Throws Error (bad_input) if the folder is no checkpoint or
// is damaged. Not thread-safe.
class TRIREME_API Checkpoint {
 public:
  // `path`: the folder of a step; or a folder of checkpoints or a run, for its newest step.
  explicit Checkpoint(const std::string& path);
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  std::string folder() const;
  std::int64_t step() const;
  std::string config() const;  // the run's configuration, as TOML
  std::vector<TensorInfo> tensors() const;
  // All elements of a floating-point tensor as f32, row-major; their checksums are verified.
  std::vector<float> read(const std::string& name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::v1
