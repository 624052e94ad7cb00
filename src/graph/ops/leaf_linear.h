// Linear layers and sums in leaves (LeafCut): the order of a sum is that of one binary tree, on any
// number of ranks.
#pragma once

#include <memory>

#include "graph/op.h"

namespace trireme::ops {

// Adds up terms that are made one after another: the tree over them keeps the sum of each complete
// subtree on the left of the next term, which memory[count] each hold. At last `memory` begins with
// the sum.
class LeafTree {
 public:
  // Pieces of `count` elements that `memory` must have for this many terms.
  static std::int64_t buffers(std::int64_t terms);

  LeafTree(const Launch& launch, DType dtype, std::int64_t count, void* memory)
      : launch_(launch), dtype_(dtype), count_(count), memory_(static_cast<std::byte*>(memory)) {}

  // Where the next term is to be made, and that it is there.
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

// Of a linear layer's product whose attributes have leaves; `whole` is the shape of the layer's
// part here, of one exact block of rows.
std::int64_t leaf_workspace(const Target& target, const Graph& g, const Node& node, Product product,
                            const LinearShape& whole);
std::shared_ptr<const void> prepare_leaves(Device& device, const Graph& g, const Node& node,
                                           Product product, const LinearShape& whole);
void launch_leaves(const Launch& l, Product product);

}  // namespace trireme::ops
