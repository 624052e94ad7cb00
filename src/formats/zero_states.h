// The files in which the ranks of DeepSpeed's ZeRO keep their shares of the weights in fp32 and of
// Adam's moments: parameters flattened, one after the other, and cut.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "formats/weight_file.h"
#include "tensors/optimizer_states.h"

namespace trireme {

// Tensors that lie in pieces, each of which is a range of a tensor of a file.
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

// What the ranks of data parallelism keep of the parameters of one model-parallel rank.
struct ZeroStates {
  int stage = 1;
  std::unique_ptr<WeightFile> weights;                            // in fp32
  std::array<std::unique_ptr<WeightFile>, adam_moments> moments;  // or null: before the first step
  std::int64_t steps = 0;
};

// A parameter as the file of a rank lists it: with the shape of the rank's part.
struct ZeroParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t count = 1;
};
// By group of the optimizer (param_shapes).
std::vector<std::vector<ZeroParameter>> read_param_shapes(const TorchFile& model);
// Refused (exit code 2): a file whose parameters were not all trained.
void refuse_frozen_parameters(const TorchFile& model);
// A number, or a tensor of one, in a file.
double optimizer_step(const TorchFile& file, PickleId id);

// `files` are those of all ranks in their order, and `model` the file that lists the parameters and
// their shapes (param_shapes). Refused (exit code 2): ranks that are missing, of different steps,
// parts that are not as long as the shapes say, optimizers other than Adam, frozen parameters.
ZeroStates open_zero_states(const std::vector<std::shared_ptr<const TorchFile>>& files,
                            const TorchFile& model);

}  // namespace trireme
