// The three products of a linear layer, leaf by leaf. For any number of ranks, products have the
// same shapes and contiguous operands: columns of a leaf are copied.
#include "graph/ops/leaf_linear.h"

#include <bit>
#include <type_traits>

#include "backend/cpu/workspace.h"
#include "base/divide.h"
#include "graph/ops/fp8_linear.h"
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
  DType type;               // of the operands
  LinearShape whole, leaf;  // of one block of rows
  std::int64_t units;       // products: of each leaf, or of each leaf of each block of outputs
  bool sums;                // whether the units are summed
  std::int64_t row_blocks;
  // Bytes: the weight with contiguous parts of each leaf, the bias with parts of each leaf, the
  // leaf's part of the operand that is split by columns, and the results: sums, or those of one
  // leaf.
  std::int64_t weight = 0, bias = 0, operand = 0, result = 0;

  Leaves(DeviceKind device, const Graph& g, const Node& node, Product product,
         const LinearShape& shape)
      : cut(node.as<LinearAttributes>().leaves),
        type(rounds_to_fp8(g, node) ? fp8_product_type(device, g) : g.compute()),
        whole{shape.rows, shape.in, cut.columns(shape.out)},
        leaf(whole),
        units(cut.count * cut.blocks),
        sums(product == (cut.of_inputs ? Product::forward : Product::input_grad)),
        row_blocks(g.value(node.inputs[0]).shape[0] / shape.rows) {
    std::int64_t& width = cut.of_inputs ? leaf.in : leaf.out;
    TRIREME_CHECK(width % units == 0);
    width /= units;
    const std::int64_t element = size_of(type), wide = size_of(g.accumulate());
    const bool of_weight = product == Product::weight_grad, copies = units > 1;
    if (!of_weight && (cut.shared > 0 || (cut.of_inputs && copies)))
      weight = whole.in * whole.out * element;
    if (cut.shared > 0 && product == Product::forward) bias = whole.out * size_of(g.compute());
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
    for (std::int64_t* bytes : {&weight, &bias, &operand, &result})
      *bytes = round_up(*bytes, alignment);
  }

  // First column or row of a unit in the split dimension. The units of a leaf are consecutive.
  std::int64_t begin(std::int64_t unit) const {
    const std::int64_t width = cut.of_inputs ? leaf.in : leaf.out;
    return (unit % cut.blocks * cut.count + unit / cut.blocks) * width;
  }
};

// Outputs of a layer whose leaves share some: a leaf's own ones, and those at the end of its group.
struct SharedOutputs {
  std::int64_t leaves, own, shared, group_rows;  // of a group; of a leaf

  SharedOutputs(const LeafCut& cut, std::int64_t leaf_outputs)
      : leaves(cut.count / cut.groups),
        own(leaf_outputs - cut.shared),
        shared(cut.shared),
        group_rows(leaves * own + shared) {}

  std::int64_t first_own(std::int64_t leaf) const {
    return leaf / leaves * group_rows + leaf % leaves * own;
  }
  std::int64_t first_shared(std::int64_t leaf) const {
    return leaf / leaves * group_rows + leaves * own;
  }
};

// Lays out `width` elements of each output leaf by leaf.
template <class T>
void copy_by_leaf(const Launch& l, const Leaves& leaves, T* dst, const T* src, std::int64_t width) {
  const SharedOutputs of(leaves.cut, leaves.leaf.out);
  const std::int64_t leaf = leaves.leaf.out * width;
  kernels<T>(l).copy_blocks(l.queue, dst, src,
                            {.counts = {leaves.cut.groups, of.leaves, 1},
                             .dst_strides = {of.leaves * leaf, leaf, 0},
                             .src_strides = {of.group_rows * width, of.own * width, 0},
                             .width = of.own * width});
  kernels<T>(l).copy_blocks(l.queue, dst, src,
                            {.counts = {leaves.cut.groups, of.leaves, 1},
                             .dst_strides = {of.leaves * leaf, leaf, 0},
                             .src_strides = {of.group_rows * width, 0, 0},
                             .dst_first = of.own * width,
                             .src_first = of.leaves * of.own * width,
                             .width = of.shared * width});
}

// The products of a launch, whose operands are of type P.
template <class T, class P>
class Run {
 public:
  using A = Acc<T>;

  Run(const Launch& l, const Leaves& leaves, std::byte* scratch, const P* weight)
      : l_(l),
        leaves_(leaves),
        product_(*static_cast<const LinearProduct*>(l.prepared)),
        weight_(weight),
        bias_(reinterpret_cast<T*>(scratch + leaves.weight)),
        operand_(reinterpret_cast<P*>(scratch + leaves.weight + leaves.bias)),
        result_(scratch + leaves.weight + leaves.bias + leaves.operand),
        rest_(result_ + leaves.result) {
    if (leaves_.weight > 0) pack_weight(reinterpret_cast<P*>(scratch));
  }

  // The bias as results have it.
  const T* by_leaf(const T* bias) {
    if (!bias || leaves_.cut.shared == 0) return bias;
    copy_by_leaf(l_, leaves_, bias_, bias, 1);
    return bias_;
  }

  // y or dx, whose columns belong to the units.
  void apart(const P* x, P* y, const P* bias) {
    const std::int64_t width = leaves_.cut.of_inputs ? leaves_.whole.in : leaves_.whole.out;
    const std::int64_t part = leaves_.cut.of_inputs ? leaves_.leaf.in : leaves_.leaf.out;
    const std::int64_t x_width = leaves_.cut.of_inputs ? leaves_.whole.out : leaves_.whole.in;
    for (std::int64_t b = 0; b < leaves_.row_blocks; ++b) {
      const P* const rows = x + b * leaves_.whole.rows * x_width;
      P* const to = y + b * leaves_.whole.rows * width;
      for (std::int64_t unit = 0; unit < leaves_.units; ++unit) {
        P* const made = leaves_.units == 1 ? to : reinterpret_cast<P*>(result_);
        product_.run(l_.queue, made, rows, weight_of(unit),
                     bias ? bias + leaves_.begin(unit) : nullptr, false, rest_);
        if (made != to) copy(to, width, leaves_.begin(unit), made, part, 0, part, block_rows());
      }
    }
  }

  // y or dx: the sum over the units of all ranks, then the bias. `x` has the units' columns.
  void sum(const P* x, T* y, const T* bias) {
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
        const P* const part = part_of(x + b * block_rows() * x_width, x_width, unit);
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

  // Adds the weight gradient of all rows at once.
  void add_weight_gradient(const P* dy, const P* x) {
    gradient_of_rows(dy, x, l_.output<A>(0), l_.accumulate);
  }

  // The same block by block, to integers: `made` has room for one block.
  void add_weight_gradients(const P* dy, const P* x, A* made) {
    const auto& [rows, in, out] = leaves_.whole;
    const bool shares = leaves_.cut.shared > 0;
    if (shares && !l_.accumulate) l_.queue.fill(l_.out[0], 0, l_.output_value(0).bytes());
    for (std::int64_t b = 0; b < leaves_.row_blocks; ++b) {
      const P* const dy_rows = dy + b * rows * out;
      const P* const x_rows = x + b * rows * in;
      for (std::int64_t unit = 0; shares && unit < leaves_.units; ++unit) {
        product_.run(l_.queue, made, part_of(dy_rows, out, unit), x_rows, nullptr, false, rest_);
        add_leaf_outputs(l_, leaves_.cut, unit, made, leaves_.leaf.out, in);
      }
      if (shares) continue;
      gradient_of_rows(dy_rows, x_rows, made, false);
      add_block(l_, 0, made, !l_.accumulate && b == 0);
    }
  }

 private:
  std::int64_t block_rows() const { return leaves_.whole.rows; }

  void gradient_of_rows(const P* dy, const P* x, A* made, bool accumulate) {
    const auto& [rows, in, out] = leaves_.whole;
    for (std::int64_t unit = 0; unit < leaves_.units; ++unit) {
      if (!leaves_.cut.of_inputs) {
        product_.run(l_.queue, made + leaves_.begin(unit) * in, part_of(dy, out, unit), x, nullptr,
                     accumulate, rest_);
        continue;
      }
      A* const leaf = leaves_.units == 1 ? made : reinterpret_cast<A*>(result_);
      const std::int64_t part = leaves_.leaf.in, first = leaves_.begin(unit);
      if (leaf != made && accumulate) copy(leaf, part, 0, made, in, first, part, out);
      product_.run(l_.queue, leaf, dy, part_of(x, in, unit), nullptr, accumulate, rest_);
      if (leaf != made) copy(made, in, first, leaf, part, 0, part, out);
    }
  }

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

  void pack_weight(P* packed) {
    if (leaves_.cut.shared > 0) {
      copy_by_leaf(l_, leaves_, packed, weight_, leaves_.whole.in);
    } else {
      const std::int64_t part = leaves_.leaf.in, in = leaves_.whole.in, out = leaves_.whole.out;
      kernels<P>(l_).copy_blocks(l_.queue, packed, weight_,
                                 {.counts = {leaves_.units, out, 1},
                                  .dst_strides = {out * part, part, 0},
                                  .src_strides = {part, in, 0},
                                  .width = part});
    }
    weight_ = packed;
  }

  const P* weight_of(std::int64_t unit) const {
    if (leaves_.weight > 0) return weight_ + unit * leaves_.leaf.in * leaves_.leaf.out;
    return weight_ + (leaves_.cut.of_inputs ? 0 : leaves_.begin(unit) * leaves_.whole.in);
  }

  // A unit's columns of one block of rows.
  const P* part_of(const P* rows, std::int64_t ld, std::int64_t unit) {
    if (leaves_.units == 1) return rows;
    const std::int64_t part = ld / leaves_.units;
    copy(operand_, part, 0, rows, ld, leaves_.begin(unit), part, block_rows());
    return operand_;
  }

  const Launch& l_;
  const Leaves& leaves_;
  const LinearProduct& product_;
  const P* weight_;
  T* bias_;
  P* operand_;
  std::byte *result_, *rest_;
};

LinearShape whole_of(const Launch& l, Product product) {
  const bool of_weight = product == Product::weight_grad;
  const Value& weight = of_weight ? l.output_value(0) : l.input_value(1);
  return {RowBlocks(l.graph, l.input_value(0).shape[0]).rows, weight.shape[1], weight.shape[0]};
}

// `first` and `second`: the operands of the node. `made` receives results with an own column for
// each output, in the type of the operands.
template <class T, class P>
void launch_products(const Launch& l, Product product, const Leaves& leaves, const P* first,
                     const P* second, P* made, std::byte* scratch, std::byte* block) {
  Run<T, P> run(l, leaves, scratch, second);
  if (product == Product::weight_grad) {
    if (l.graph.exact_block() == 0) return run.add_weight_gradient(first, second);
    return run.add_weight_gradients(first, second, reinterpret_cast<Acc<T>*>(block));
  }
  const T* const bias = product == Product::forward ? run.by_leaf(l.input<T>(2)) : nullptr;
  if (leaves.sums) return run.sum(first, l.output<T>(0), bias);
  if constexpr (std::is_same_v<T, P>) {
    run.apart(first, made, bias);
  } else {
    run.apart(first, made, nullptr);
    kernels<T>(l).store_sums(l.queue, l.output<T>(0), made, bias, l.output_value(0).shape[0],
                             l.output_value(0).shape[1]);
  }
}

template <class T>
void launch_as(const Launch& l, Product product) {
  const DeviceKind device = l.device.target().device;
  const Leaves leaves(device, l.graph, l.node, product, whole_of(l, product));
  auto* const block = static_cast<std::byte*>(l.workspace);
  std::byte* const scratch =
      block + (product == Product::weight_grad
                   ? block_gradient_bytes(l.graph, l.output_value(0).shape.count())
                   : 0);
  if (!rounds_to_fp8(l.graph, l.node)) {
    return launch_products<T, T>(l, product, leaves, l.input<T>(0), l.input<T>(1), l.output<T>(0),
                                 scratch, block);
  }
  const Fp8Operands operands = fp8_operands(device, l.graph, l.node, product);
  const Fp8Rounded<T> rounded = round_operands<T>(l, operands, scratch);
  std::byte* const made = operands.stores ? rounded.made() : l.output<std::byte>(0);
  const auto launch = [&]<class P>(P) {
    launch_products<T, P>(l, product, leaves, reinterpret_cast<const P*>(rounded.a()),
                          reinterpret_cast<const P*>(rounded.b()), reinterpret_cast<P*>(made),
                          rounded.rest(), block);
  };
  operands.type == dtype_of<T> ? launch(T{}) : launch(Acc<T>{});
}

}  // namespace

void add_leaf_outputs(const Launch& l, const LeafCut& cut, std::int64_t leaf, const void* made,
                      std::int64_t outputs, std::int64_t width) {
  const SharedOutputs of(cut, outputs);
  const auto* const values = static_cast<const float*>(made);
  const auto add = [&](std::int64_t output, const float* from, std::int64_t count) {
    l.device.state_kernels().add_fixed_point(l.queue, l.output<std::int64_t>(0) + output * width,
                                             from, count * width, l.step, l.fixed_point.limit,
                                             false, l.fixed_point.overflows);
  };
  add(of.first_own(leaf), values, of.own);
  add(of.first_shared(leaf), values + of.own * width, of.shared);
}

std::int64_t leaf_workspace(const Target& target, const Graph& g, const Node& node, Product product,
                            const LinearShape& whole) {
  const Leaves leaves(target.device, g, node, product, whole);
  std::int64_t own = 0;  // GPUs' own kernels need none
  if (target.device == DeviceKind::cpu) {
    own = leaves.sums ? cpu::sums_workspace(target, leaves.type, product, leaves.leaf)
                      : cpu::linear_workspace(target, leaves.type, product, leaves.leaf);
  }
  const std::int64_t rounded =
      rounds_to_fp8(g, node) ? fp8_operands(target.device, g, node, product).rest : 0;
  return rounded + leaves.weight + leaves.bias + leaves.operand + leaves.result + own;
}

std::shared_ptr<const void> prepare_leaves(Device& device, const Graph& g, const Node& node,
                                           Product product, const LinearShape& whole) {
  const Leaves leaves(device.target().device, g, node, product, whole);
  return device.leaf_linear(leaves.type, product, leaves.leaf, leaves.sums);
}

void launch_leaves(const Launch& l, Product product) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) { launch_as<T>(l, product); });
}

}  // namespace trireme::ops
