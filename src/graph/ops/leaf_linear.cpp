// The three products of a linear layer, leaf by leaf. For any number of ranks, products have the
// same shapes and contiguous operands: columns of a leaf are copied.
#include "graph/ops/leaf_linear.h"

#include <bit>

#include "backend/cpu/gemm.h"
#include "backend/cpu/workspace.h"
#include "base/divide.h"
#include "graph/ops/support.h"

namespace trireme::ops {

std::int64_t LeafTree::buffers(std::int64_t terms) {
  return std::bit_width(static_cast<std::uint64_t>(terms));
}

void LeafTree::take() {
  ++kept_;
  for (std::int64_t complete = taken_++; complete % 2 == 1; complete /= 2) {
    --kept_;
    launch_.device.state_kernels().add(launch_.queue, dtype_, piece(kept_ - 1), piece(kept_),
                                       count_);
  }
}

namespace {

constexpr std::int64_t alignment = 64;

// One of the products: its leaves and the layout of its scratch.
struct Leaves {
  LeafCut cut;
  LinearShape whole, leaf;  // of one block of rows
  std::int64_t units;       // products: of each leaf, or of each leaf of each block of outputs
  bool sums;                // whether the units are summed
  std::int64_t row_blocks;
  // Bytes: the weight with contiguous columns of each leaf, the leaf's part of the operand that is
  // split by columns, and the results: sums, or those of one leaf.
  std::int64_t weight = 0, operand = 0, result = 0;

  Leaves(const Graph& g, const Node& node, Product product, const LinearShape& shape)
      : cut(node.as<LinearAttributes>().leaves),
        whole(shape),
        leaf(shape),
        units(cut.count * cut.blocks),
        sums(product == (cut.of_inputs ? Product::forward : Product::input_grad)),
        row_blocks(g.value(node.inputs[0]).shape[0] / shape.rows) {
    std::int64_t& width = cut.of_inputs ? leaf.in : leaf.out;
    TRIREME_CHECK(g.exact_block() > 0 && width % units == 0);
    width /= units;
    const std::int64_t element = size_of(g.compute()), wide = size_of(g.accumulate());
    const bool of_weight = product == Product::weight_grad, copies = units > 1;
    if (cut.of_inputs && copies && !of_weight) weight = whole.in * whole.out * element;
    if (copies && (sums || of_weight)) operand = leaf.rows * width * element;
    if (sums) {
      const std::int64_t columns = cut.of_inputs ? whole.out : whole.in;
      // One collective adds the sums of all blocks; without one, a block is finished by itself.
      const std::int64_t kept = cut.group.size > 1 ? row_blocks : 1;
      result = (kept + LeafTree::buffers(units) - 1) * whole.rows * columns * wide;
    } else if (copies && of_weight) {
      result = cut.of_inputs ? leaf.in * leaf.out * wide : 0;
    } else if (copies) {
      result = leaf.rows * width * element;
    }
    for (std::int64_t* bytes : {&weight, &operand, &result}) *bytes = round_up(*bytes, alignment);
  }

  // First column or row of a unit in the split dimension. The units of a leaf are consecutive.
  std::int64_t begin(std::int64_t unit) const {
    const std::int64_t width = cut.of_inputs ? leaf.in : leaf.out;
    return (unit % cut.blocks * cut.count + unit / cut.blocks) * width;
  }
};

template <class T>
class Run {
 public:
  using A = Acc<T>;

  Run(const Launch& l, const Leaves& leaves, std::byte* scratch)
      : l_(l),
        leaves_(leaves),
        product_(*static_cast<const LinearProduct*>(l.prepared)),
        weight_(reinterpret_cast<T*>(scratch)),
        operand_(reinterpret_cast<T*>(scratch + leaves.weight)),
        result_(scratch + leaves.weight + leaves.operand),
        rest_(result_ + leaves.result) {
    if (leaves_.weight > 0) pack_weight();
  }

  // y or dx, whose columns belong to the units.
  void apart(const T* x, T* y, const T* bias) {
    const std::int64_t width = leaves_.cut.of_inputs ? leaves_.whole.in : leaves_.whole.out;
    const std::int64_t part = leaves_.cut.of_inputs ? leaves_.leaf.in : leaves_.leaf.out;
    const std::int64_t x_width = leaves_.cut.of_inputs ? leaves_.whole.out : leaves_.whole.in;
    for (std::int64_t b = 0; b < leaves_.row_blocks; ++b) {
      const T* const rows = x + b * leaves_.whole.rows * x_width;
      T* const to = y + b * leaves_.whole.rows * width;
      for (std::int64_t unit = 0; unit < leaves_.units; ++unit) {
        T* const made = leaves_.units == 1 ? to : reinterpret_cast<T*>(result_);
        product_.run(l_.queue, made, rows, weight_of(unit),
                     bias ? bias + leaves_.begin(unit) : nullptr, false, rest_);
        if (made != to) copy(to, width, leaves_.begin(unit), made, part, 0, part, block_rows());
      }
    }
  }

  // y or dx: the sum over the units of all ranks, then the bias. `x` has the units' columns.
  void sum(const T* x, T* y, const T* bias) {
    const std::int64_t width = leaves_.cut.of_inputs ? leaves_.whole.out : leaves_.whole.in;
    const std::int64_t x_width = leaves_.cut.of_inputs ? leaves_.whole.in : leaves_.whole.out;
    const std::int64_t block = block_rows() * width, count = leaves_.row_blocks * block;
    const DType dtype = l_.graph.accumulate();
    const GraphGroup& ranks = leaves_.cut.group;
    A* const sums = reinterpret_cast<A*>(result_);
    for (std::int64_t b = 0; b < leaves_.row_blocks; ++b) {
      // With several ranks, its memory reaches into that of blocks which are made later.
      A* const sum = ranks.size > 1 ? sums + b * block : sums;
      LeafTree tree(l_, dtype, block, sum);
      for (std::int64_t unit = 0; unit < leaves_.units; ++unit) {
        const T* const part = part_of(x + b * block_rows() * x_width, x_width, unit);
        product_.run(l_.queue, tree.next(), part, weight_of(unit), nullptr, false, rest_);
        tree.take();
      }
      if (ranks.size == 1)
        kernels<T>(l_).store_sums(l_.queue, y + b * block, sum, bias, block_rows(), width);
    }
    if (ranks.size == 1) return;
    group_of(l_, ranks).sum_in_tree(l_.queue, sums, count, dtype);
    kernels<T>(l_).store_sums(l_.queue, y, sums, bias, count / width, width);
  }

  // Adds the weight gradient, block by block: `made` has room for one block.
  void add_weight_gradients(const T* dy, const T* x, A* made) {
    const auto& [rows, in, out] = leaves_.whole;
    for (std::int64_t b = 0; b < leaves_.row_blocks; ++b) {
      const T* const dy_rows = dy + b * rows * out;
      const T* const x_rows = x + b * rows * in;
      for (std::int64_t unit = 0; unit < leaves_.units; ++unit) {
        if (leaves_.cut.of_inputs) {
          A* const leaf = leaves_.units == 1 ? made : reinterpret_cast<A*>(result_);
          product_.run(l_.queue, leaf, dy_rows, part_of(x_rows, in, unit), nullptr, false, rest_);
          const std::int64_t part = leaves_.leaf.in;
          if (leaf != made) copy(made, in, leaves_.begin(unit), leaf, part, 0, part, out);
        } else {
          product_.run(l_.queue, made + leaves_.begin(unit) * in, part_of(dy_rows, out, unit),
                       x_rows, nullptr, false, rest_);
        }
      }
      add_block(l_, 0, made, !l_.accumulate && b == 0);
    }
  }

 private:
  std::int64_t block_rows() const { return leaves_.whole.rows; }

  // Copies `width` columns of each row.
  template <class Element>
  void copy(Element* dst, std::int64_t dst_ld, std::int64_t dst_first, const Element* src,
            std::int64_t src_ld, std::int64_t src_first, std::int64_t width, std::int64_t rows) {
    kernels<Element>(l_).copy_blocks(l_.queue, dst, src,
                                     {.counts = {rows, 1, 1},
                                      .dst_strides = {dst_ld, 0, 0},
                                      .src_strides = {src_ld, 0, 0},
                                      .dst_first = dst_first,
                                      .src_first = src_first,
                                      .width = width});
  }

  void pack_weight() {
    const std::int64_t part = leaves_.leaf.in, in = leaves_.whole.in, out = leaves_.whole.out;
    kernels<T>(l_).copy_blocks(l_.queue, weight_, l_.input<T>(1),
                               {.counts = {leaves_.units, out, 1},
                                .dst_strides = {out * part, part, 0},
                                .src_strides = {part, in, 0},
                                .width = part});
  }

  const T* weight_of(std::int64_t unit) const {
    if (leaves_.weight > 0) return weight_ + unit * leaves_.leaf.in * leaves_.leaf.out;
    return l_.input<T>(1) + (leaves_.cut.of_inputs ? 0 : leaves_.begin(unit) * leaves_.whole.in);
  }

  // A unit's columns of one block of rows.
  const T* part_of(const T* rows, std::int64_t ld, std::int64_t unit) {
    if (leaves_.units == 1) return rows;
    const std::int64_t part = ld / leaves_.units;
    copy(operand_, part, 0, rows, ld, leaves_.begin(unit), part, block_rows());
    return operand_;
  }

  const Launch& l_;
  const Leaves& leaves_;
  const LinearProduct& product_;
  T *weight_, *operand_;
  std::byte *result_, *rest_;
};

LinearShape whole_of(const Launch& l, Product product) {
  const bool of_weight = product == Product::weight_grad;
  const Value& weight = of_weight ? l.output_value(0) : l.input_value(1);
  return {RowBlocks(l.graph, l.input_value(0).shape[0]).rows, weight.shape[1], weight.shape[0]};
}

}  // namespace

std::int64_t leaf_workspace(const Target& target, const Graph& g, const Node& node, Product product,
                            const LinearShape& whole) {
  TRIREME_CHECK(target.device == DeviceKind::cpu);
  const Leaves leaves(g, node, product, whole);
  const std::int64_t own = leaves.sums
                               ? cpu::sums_workspace(target, g.compute(), product, leaves.leaf)
                               : cpu::linear_workspace(target, g.compute(), product, leaves.leaf);
  return leaves.weight + leaves.operand + leaves.result + own;
}

std::shared_ptr<const void> prepare_leaves(Device& device, const Graph& g, const Node& node,
                                           Product product, const LinearShape& whole) {
  const Leaves leaves(g, node, product, whole);
  if (leaves.sums && device.computes()) return cpu::make_sums(g.compute(), product, leaves.leaf);
  return device.linear(g.compute(), product, leaves.leaf);
}

void launch_leaves(const Launch& l, Product product) {
  const Leaves leaves(l.graph, l.node, product, whole_of(l, product));
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    auto* const scratch = static_cast<std::byte*>(l.workspace);
    const T* const first = l.input<T>(0);
    if (product == Product::weight_grad) {
      const std::int64_t block = block_gradient_bytes(l.graph, l.output_value(0).shape.count());
      return Run<T>(l, leaves, scratch + block)
          .add_weight_gradients(first, l.input<T>(1), reinterpret_cast<Acc<T>*>(scratch));
    }
    const T* const bias = product == Product::forward ? l.input<T>(2) : nullptr;
    Run<T> run(l, leaves, scratch);
    if (leaves.sums)
      run.sum(first, l.output<T>(0), bias);
    else
      run.apart(first, l.output<T>(0), bias);
  });
}

}  // namespace trireme::ops
