// DeepSpeed ZeRO files with the ranks' partitions of fp32 weights and Adam moments: parameters
// flattened, concatenated and split.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "formats/weight_file.h"
#include "tensors/optimizer_states.h"

namespace trireme {

// Tensors made of pieces, each of which is a range of a tensor in a file.
class PiecedWeights : public WeightFile {
 public:
  struct Piece {
    std::shared_ptr<const TorchFile> file;
    const PickleTensor* tensor = nullptr;
    std::int64_t begin = 0, count = 0;
  };
  struct Tensor {
    WeightEntry entry;
    std::vector<Piece> pieces;
  };
  PiecedWeights(std::string name, std::vector<Tensor> tensors);

  void read(const WeightEntry& tensor, std::int64_t begin, std::int64_t end,
            std::byte* dst) const override;

 private:
  static std::vector<WeightEntry> entries(const std::vector<Tensor>& tensors);
  std::vector<std::vector<Piece>> pieces_;  // by entry
};

// ZeRO states of one model-parallel rank's parameters, from all data-parallel ranks.
struct ZeroStates {
  int stage = 1;
  std::unique_ptr<WeightFile> weights;                            // in fp32
  std::array<std::unique_ptr<WeightFile>, adam_moments> moments;  // null before the first step
  std::int64_t steps = 0;
};

// A parameter as listed in a rank's file, with its local shape.
struct ZeroParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t count = 1;
};
// Parameters by optimizer group (param_shapes).
std::vector<std::vector<ZeroParameter>> read_param_shapes(const TorchFile& model);
// Refused (exit code 2): a file with frozen (untrained) parameters.
void refuse_frozen_parameters(const TorchFile& model);
// A step count stored as a number or as a one-element tensor.
double optimizer_step(const TorchFile& file, PickleId id);

// `files` are those of all ranks in order, and `model` is the file that lists parameters and shapes
// (param_shapes). Refused (exit code 2): missing ranks, ranks of different steps, partitions whose
// size contradicts the shapes, optimizers other than Adam, frozen parameters.
ZeroStates open_zero_states(const std::vector<std::shared_ptr<const TorchFile>>& files,
                            const TorchFile& model);

}  // namespace trireme
