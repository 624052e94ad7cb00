// Reading checkpoints, of any number of processes.
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

// A checkpoint as it lies on disk. Damage and whatever is not a checkpoint are refused (bad_input).
// One thread at a time.
class TRIREME_API Checkpoint {
 public:
  // The folder of a step, or the newest one of a folder of checkpoints or of a run.
  explicit Checkpoint(const std::string& path);
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  std::string folder() const;
  std::int64_t step() const;
  std::string config() const;  // of the run, as TOML
  std::vector<TensorInfo> tensors() const;
  // All elements of a floating-point tensor, row by row, checked against their checksums.
  std::vector<float> read(const std::string& name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::v1
