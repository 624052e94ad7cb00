// Linear layers and sums in leaves (LeafCut), which are added in the order of one binary tree on
// any number of ranks.
#pragma once

#include <memory>

#include "graph/op.h"

namespace trireme::ops {

// Adds terms that are made one after another, in the order of a binary tree. The sum of each
// complete subtree to the left of the next term is kept in a piece of `count` elements; in the end
// the first piece of `memory` is the sum.
class LeafTree {
 public:
  // The number of pieces that `memory` must have for this many terms.
  static std::int64_t buffers(std::int64_t terms);

  LeafTree(const Launch& launch, DType dtype, std::int64_t count, void* memory)
      : launch_(launch), dtype_(dtype), count_(count), memory_(static_cast<std::byte*>(memory)) {}

  // next() is where the caller makes the next term; take() adds it to the tree.
  void* next() const { return piece(kept_); }
  void take();

 private:
  void* piece(int number) const { return memory_ + number * count_ * size_of(dtype_); }

  const Launch& launch_;
  DType dtype_;
  std::int64_t count_;
  std::byte* memory_;
  std::int64_t taken_ = 0;
  int kept_ = 0;  // pieces in use
};

// A product of a linear layer whose attributes have leaves: its scratch memory, what its kernel
// prepares, and its launch. `whole` is the shape of this rank's part of the layer for one exact
// block of rows.
std::int64_t leaf_workspace(const Target& target, const Graph& g, const Node& node, Product product,
                            const LinearShape& whole);
std::shared_ptr<const void> prepare_leaves(Device& device, const Graph& g, const Node& node,
                                           Product product, const LinearShape& whole);
void launch_leaves(const Launch& l, Product product);

}  // namespace trireme::ops
