// Layer kernels of other stacks: PyTorch's separate kernels where ours are fused, and its separate
// products where ours are merged.
#pragma once

#include <optional>
#include <vector>

#include "plan/timing/costs.h"

namespace trireme {

class ForeignKernels {
 public:
  // Both arguments must outlive this object. Layers are found among the record's pieces.
  ForeignKernels(const CostModel& costs, const Record& record);

  // Seconds of a work item as executed by the stack.
  double seconds(const RecordedWork& work) const;
  // Seconds of products and other kernels that the stack's backward pass of a layer recomputes
  // although ours saves them, by its forward pass.
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
  // Output widths of the stack's separate products; empty: a single product.
  std::vector<std::int64_t> parts(const RecordedWork& product) const;
  double bytes(const RecordedWork& kernel) const;

  const CostModel& costs_;
  std::optional<Layer> layer_;
};

}  // namespace trireme
