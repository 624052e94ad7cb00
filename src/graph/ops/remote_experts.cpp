// Experts sharded over ranks: rows are sent to the ranks of their experts, and the results are sent
// back.
//
// In turn k a rank processes rows of the rank k places before it, while the rank k places after it
// processes its own; turn 0 is local. A turn has several rounds if more rows arrive than memory was
// planned for: as many experts at once as fit, each with all its rows. An expert thus sees all rows
// of a micro-batch in one product, for any number of ranks and any balance.
//
// Expert tensor parallelism shards the inner width of an expert over adjacent ranks of the
// group. Rows are then sent to each of them, and the source adds the results in rank
// order.
//
// Outputs of the first product are saved for the backward pass on the experts' ranks: for as many
// rows as a rank has itself, which is all with balanced load. Further rows are recomputed, so that
// an overloaded rank needs no more memory than the others.
#include <algorithm>
#include <array>
#include <vector>

#include "graph/ops/definitions.h"
#include "graph/ops/expert_exchange.h"
#include "graph/ops/fp8_grouped.h"
#include "graph/ops/group_bias.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

enum Products : std::uint8_t {
  up_forward,
  down_forward,
  up_input,
  down_input,
  up_weight,
  down_weight,
  products
};

GroupedShape shape_of(const ExpertSizes& s, Products which) {
  return which == up_forward || which == up_input || which == up_weight ? s.up() : s.down();
}

Product product_of(Products which) {
  if (which == up_forward || which == down_forward) return Product::forward;
  return which == up_input || which == down_input ? Product::input_grad : Product::weight_grad;
}

constexpr int forward_products = 2;

using Prepared = std::array<std::shared_ptr<const GroupedProduct>, products>;

template <int count>
std::shared_ptr<const void> prepare(Device& device, const Graph& g, const Node& node) {
  const ExpertSizes s(g, node);
  auto made = std::make_shared<Prepared>();
  for (int i = 0; i < count; ++i) {
    const auto which = static_cast<Products>(i);
    (*made)[i] = make_grouped(device, g, product_of(which), shape_of(s, which));
  }
  return made;
}

// Operand of the biases: of the gradient too it is the first after all that are always there.
int biases_operand(const Node& node) {
  return node.op == OpKind::remote_experts_grad ? 6 : 4;
}

bool has_biases(const Node& node) {
  return node.inputs[biases_operand(node)] != no_value;
}

bool sums_integers(const Graph& g, const Node& node) {
  return node.op == OpKind::remote_experts_grad && g.value(node.outputs[1]).dtype == DType::i64;
}

template <int count>
std::int64_t workspace(const Target& target, const Graph& g, const Node& node) {
  const ExpertSizes s(g, node);
  std::int64_t most = 0;
  for (int i = 0; i < count; ++i) {
    const auto which = static_cast<Products>(i);
    most = std::max(most, grouped_workspace(target, g, product_of(which), shape_of(s, which)));
  }
  return ExpertScratch(s, count == products, sums_integers(g, node), has_biases(node)).bytes + most;
}

// Products of the rows of one round.
class RoundProducts {
 public:
  RoundProducts(const Launch& l, const ExpertExchange& exchange, const ExpertScratch& scratch)
      : l_(l),
        made_(*static_cast<const Prepared*>(l.prepared)),
        sizes_(exchange.sizes()),
        offsets_(exchange.at<std::int32_t>(scratch.own_offsets)),
        sums_(exchange.at(scratch.biases)),
        workspace_(exchange.at(scratch.product)) {}

  void operator()(Products which, void* dst, const void* a, const void* b,
                  bool accumulate = false) const {
    made_[which]->run(l_.queue, dst, a, b, offsets_, accumulate, workspace_);
  }
  // Adds biases to the rows of a round: those from element `first` of an expert's on.
  template <class T>
  void add_bias(T* y, std::int64_t rows, std::int64_t cols, std::int64_t first) const {
    const T* const biases = l_.input<T>(biases_operand(l_.node));
    if (!biases) return;
    kernels<T>(l_).add_group_bias(l_.queue, sizes_.bias(cols, rows), y, biases + first, offsets_);
  }
  template <class T>
  void add_bias_grad(const T* dy, std::int64_t rows, std::int64_t cols, std::int64_t first) const {
    if (!has_biases(l_.node)) return;
    add_group_bias_grad<T>(l_, 3, first, sizes_.bias(cols, rows), dy, offsets_, sums_);
  }
  // Adds the product of each block of an expert's rows to a fixed-point output.
  void add_blocks(Products which, int output, const ExpertSizes& s, const void* dy, const void* x,
                  void* made) const {
    add_groups(l_, output, *made_[which], shape_of(s, which), dy, x, offsets_, made, workspace_);
  }

 private:
  const Launch& l_;
  const Prepared& made_;
  const ExpertSizes& sizes_;
  const std::int32_t* offsets_;
  void *sums_, *workspace_;
};

// Storage of the first product of each round between the passes, which take the same rounds.
template <class T>
class KeptRows {
 public:
  KeptRows(T* rows, const ExpertSizes& s) : rows_(rows), left_(s.even_rows()), width_(s.wide) {}

  // Null if there is no space for a round.
  T* next(const ExpertRound& round) {
    if (round.rows > left_) return nullptr;
    T* const rows = rows_;
    rows_ += round.rows * width_;
    left_ -= round.rows;
    return rows;
  }

 private:
  T* rows_;
  std::int64_t left_, width_;
};

// --- forward; inputs: rows by expert, offsets, up, down, biases; outputs: rows by expert, rows
// that are kept
void infer(Graph& g, Node& node) {
  const auto& a = node.as<RemoteExpertsAttributes>();
  const ExpertSizes s(g, node);
  require(s.ranks % s.tensor_size == 0 && s.experts % (s.ranks / s.tensor_size) == 0, g, node,
          "the experts must divide among the ranks, or groups of expert-tensor-parallel ranks");
  const Shape &up = g.value(node.inputs[2]).shape, &down = g.value(node.inputs[3]).shape;
  require(up[1] == s.width && down[0] == s.own * s.width &&
              up[0] == s.own * s.inner * (is_gated(a.activation.kind) ? 2 : 1),
          g, node, "up is [own experts * wide, in] and down [own experts * in, inner]");
  require(!has_biases(node) ||
              (s.tensor_size == 1 && g.value(node.inputs[4]).shape.count() == s.own * s.biases()),
          g, node, "an expert that is not cut has a bias of each output of up and of down");
  add_output(g, node, 0, g.compute(), g.value(node.inputs[0]).shape);
  add_output(g, node, 1, g.compute(), {s.even_rows(), s.wide});
}

double flops(const Graph& g, const Node& node) {
  const ExpertSizes s(g, node);
  return 2.0 * static_cast<double>(s.even_rows()) * static_cast<double>(s.width) *
         static_cast<double>(s.wide + s.inner);
}

// Computes both gradients together, so that rows are not sent more often than necessary.
double flops_grad(const Graph& g, const Node& node) {
  return 2 * flops(g, node);
}

void launch(const Launch& l) {
  const ExpertScratch scratch(ExpertSizes(l.graph, l.node), false, false, false);
  const ExpertExchange exchange(l, scratch);
  const ExpertSizes& s = exchange.sizes();
  const RoundProducts product(l, exchange, scratch);
  const ExpertExchange::Input inputs[] = {{l.input<std::byte>(0), exchange.at(scratch.x)}};
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    KeptRows<T> kept(l.output<T>(1), s);
    exchange.run(inputs, exchange.at(scratch.y), l.output<std::byte>(0),
                 [&](const ExpertRound& round, const std::byte* const* rows) {
                   T* const wide = exchange.at<T>(scratch.wide);
                   T* const inner = exchange.at<T>(scratch.inner);
                   product(up_forward, wide, rows[0], l.in[2]);
                   product.add_bias(wide, round.rows, s.wide, 0);
                   // A product fills its result to the end of a whole round: it is copied.
                   if (T* const keep = kept.next(round))
                     l.queue.copy(keep, wide, round.rows * s.wide * s.element);
                   kernels<T>(l).activation(l.queue,
                                            l.node.as<RemoteExpertsAttributes>().activation, inner,
                                            wide, round.rows, s.inner);
                   T* const y = exchange.at<T>(scratch.y);
                   product(down_forward, y, inner, l.in[3]);
                   product.add_bias(y, round.rows, s.width, s.wide);
                 });
  });
}

void gradient(GradientBuilder& b, const Node& node) {
  const ValueId rows = node.inputs[0], offsets = node.inputs[1];
  const ValueId up = node.inputs[2], down = node.inputs[3], biases = node.inputs[4];
  const ValueId dy = b.grad(node.outputs[0]), again = permute_again(b, Phase::input_grad, rows);
  b.add_grad(rows, b.emit(Phase::input_grad, OpKind::remote_experts_grad, node.attributes,
                          {again, offsets, up, down, dy, node.outputs[1], biases})
                       .outputs[0]);
}

// inputs: rows by expert, offsets, up, down, dy, rows that were kept, biases; outputs: dx,
// gradients of up, down and biases
void infer_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[0]).shape);
  node.outputs[1] = g.gradient_of(node.inputs[2]);
  node.outputs[2] = g.gradient_of(node.inputs[3]);
  if (has_biases(node)) node.outputs[3] = g.gradient_of(node.inputs[6]);
}

// Adds to a weight gradient.
void add_weight_grad(const Launch& l, const ExpertExchange& exchange, const ExpertScratch& scratch,
                     const RoundProducts& product, Products which, const void* dy, const void* x) {
  const int output = which == up_weight ? 1 : 2;
  if (!sums_integers(l.graph, l.node)) return product(which, l.out[output], dy, x, true);
  product.add_blocks(which, output, exchange.sizes(), dy, x, exchange.at(scratch.weights));
}

void launch_grad(const Launch& l) {
  const ExpertScratch scratch(ExpertSizes(l.graph, l.node), true, sums_integers(l.graph, l.node),
                              has_biases(l.node));
  const ExpertExchange exchange(l, scratch);
  const ExpertSizes& s = exchange.sizes();
  const RoundProducts product(l, exchange, scratch);
  for (int i = 1; i <= 3 && !l.accumulate; ++i)
    if (l.out[i]) l.queue.fill(l.out[i], 0, l.output_value(i).bytes());
  const ExpertExchange::Input inputs[] = {{l.input<std::byte>(0), exchange.at(scratch.x)},
                                          {l.input<std::byte>(4), exchange.at(scratch.y)}};
  const ActivationRule& rule = l.node.as<RemoteExpertsAttributes>().activation;
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    // Saved rows are only read here.
    KeptRows<T> kept(const_cast<T*>(l.input<T>(5)), s);
    T* const inner = exchange.at<T>(scratch.inner);
    T* const dwide = exchange.at<T>(scratch.wide_grad);
    T* const dinner = exchange.at<T>(scratch.inner_grad);
    exchange.run(inputs, exchange.at(scratch.y), l.output<std::byte>(0),
                 [&](const ExpertRound& round, const std::byte* const* rows) {
                   const std::byte* const x = rows[0];
                   const T* const dy = reinterpret_cast<const T*>(rows[1]);
                   T* const keep = kept.next(round);
                   T* const wide = keep ? keep : exchange.at<T>(scratch.wide);
                   if (!keep) {
                     product(up_forward, wide, x, l.in[2]);
                     product.add_bias(wide, round.rows, s.wide, 0);
                   }
                   kernels<T>(l).activation(l.queue, rule, inner, wide, round.rows, s.inner);
                   product(down_input, dinner, dy, l.in[3]);
                   product.add_bias_grad(dy, round.rows, s.width, s.wide);
                   add_weight_grad(l, exchange, scratch, product, down_weight, dy, inner);
                   kernels<T>(l).activation_grad(
                       l.queue, rule, {.dx = dwide, .dy = dinner, .x = wide}, round.rows, s.inner);
                   product.add_bias_grad(dwide, round.rows, s.wide, 0);
                   add_weight_grad(l, exchange, scratch, product, up_weight, dwide, x);
                   product(up_input, exchange.at(scratch.y), dwide, l.in[2]);
                 });
  });
}

}  // namespace

const OpDefinition remote_experts_op{.name = "remote_experts",
                                     .infer = infer,
                                     .gradient = gradient,
                                     .flops = flops,
                                     .workspace = workspace<forward_products>,
                                     .prepare = prepare<forward_products>,
                                     .launch = launch};
const OpDefinition remote_experts_grad_op{.name = "remote_experts_grad",
                                          .infer = infer_grad,
                                          .flops = flops_grad,
                                          .workspace = workspace<products>,
                                          .prepare = prepare<products>,
                                          .launch = launch_grad};

ValueId remote_experts(Graph& g, ValueId rows, ValueId offsets, ValueId up, ValueId down,
                       const RemoteExpertsAttributes& attributes, ValueId biases) {
  return g.emit(OpKind::remote_experts, attributes, {rows, offsets, up, down, biases}).outputs[0];
}

}  // namespace trireme::ops
