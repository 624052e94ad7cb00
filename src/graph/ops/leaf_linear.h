// Linear layers and sums over leaves (LeafCut): the order of summation is one binary tree, for any
// number of ranks.
#pragma once

#include <memory>

#include "graph/op.h"

namespace trireme::ops {

// Sums terms that are computed one after another as a binary tree. `memory` holds the sums of the
// complete subtrees to the left of the next term, `count` elements each; after the last term it
// begins with the total.
class LeafTree {
 public:
  // Number of buffers of `count` elements that `memory` must hold for this many terms.
  static std::int64_t buffers(std::int64_t terms);

  LeafTree(const Launch& launch, DType dtype, std::int64_t count, void* memory)
      : launch_(launch), dtype_(dtype), count_(count), memory_(static_cast<std::byte*>(memory)) {}

  // Address for the next term, and the notice that the term has been written there.
  void* next() const { return piece(kept_); }
  void take();

 private:
  void* piece(int number) const { return memory_ + number * count_ * size_of(dtype_); }

  const Launch& launch_;
  DType dtype_;
  std::int64_t count_;
  std::byte* memory_;
  std::int64_t taken_ = 0;
  int kept_ = 0;  // buffers in use
};

// For the product of a linear layer with leaves; `whole` is the shape of this rank's part of the
// layer, for one exact block of rows.
std::int64_t leaf_workspace(const Target& target, const Graph& g, const Node& node, Product product,
                            const LinearShape& whole);
std::shared_ptr<const void> prepare_leaves(Device& device, const Graph& g, const Node& node,
                                           Product product, const LinearShape& whole);
void launch_leaves(const Launch& l, Product product);

// Adds the gradient of the outputs of a leaf, some of which other leaves share (LeafCut::shared),
// to output 0 of the launch, a fixed-point gradient: `width` elements for each output.
void add_leaf_outputs(const Launch& l, const LeafCut& cut, std::int64_t leaf, const void* made,
                      std::int64_t outputs, std::int64_t width);

}  // namespace trireme::ops
