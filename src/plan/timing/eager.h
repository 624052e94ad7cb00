// Kernels of other stacks for a layer: PyTorch's kernels run one after another where ours are
// fused, and its products are separate where ours are joined.
#pragma once

#include <optional>
#include <vector>

#include "plan/timing/costs.h"

namespace trireme {

class ForeignKernels {
 public:
  // Both outlive it. Layers are looked for among the record's pieces.
  ForeignKernels(const CostModel& costs, const Record& record);

  // Seconds of a work as the stack runs it.
  double seconds(const RecordedWork& work) const;
  // Seconds of what the backward pass of a layer computes again although ours has kept it, by its
  // forward pass: products, and other kernels.
  struct Again {
    double products = 0, kernels = 0;
  };
  Again again(const RecordedPiece& forward) const;

 private:
  // Widths of the products of a layer, and the bytes of its activations on this rank.
  struct Layer {
    std::int64_t hidden = 0, queries = 0, keys = 0, inner = 0;
    bool has_gate = false;
    double activations = 0;
  };
  static std::optional<Layer> layer_of(const RecordedPiece& forward);
  // The outputs that the stack has products of their own for; empty: it has one.
  std::vector<std::int64_t> parts(const RecordedWork& product) const;
  double bytes(const RecordedWork& kernel) const;

  const CostModel& costs_;
  std::optional<Layer> layer_;
};

}  // namespace trireme
