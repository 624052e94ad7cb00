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
#include <span>
#include <vector>

#include "base/line_parts.h"
#include "graph/ops/definitions.h"
#include "graph/ops/fp8_grouped.h"
#include "graph/ops/group_bias.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// Consecutive experts of an owner, and their rows within a source.
struct Round {
  std::int64_t row, rows;
};

// offsets: of all experts' blocks, at the source. Empty rounds are omitted.
std::vector<Round> rounds_of(const std::int32_t* offsets, std::int64_t blocks, std::int64_t first,
                             std::int64_t end, std::int64_t most) {
  std::vector<Round> rounds;
  for (std::int64_t e = first; e < end; ++e) {
    const std::int64_t begin = offsets[e * blocks], count = offsets[(e + 1) * blocks] - begin;
    TRIREME_CHECK(count <= most);
    if (count == 0) continue;
    if (rounds.empty() || rounds.back().rows + count > most) rounds.push_back({begin, 0});
    rounds.back().rows += count;
  }
  return rounds;
}

struct Sizes {
  std::int64_t ranks, tensor_size, experts, own, blocks;        // experts of all ranks, and of each
  std::int64_t taken, round_rows, width, wide, inner, element;  // wide, inner: of a rank

  // inputs of both directions: rows, offsets, up, down
  Sizes(const Graph& g, const Node& node) {
    const auto& a = node.as<RemoteExpertsAttributes>();
    const Shape &rows = g.value(node.inputs[0]).shape, &up = g.value(node.inputs[2]).shape,
                &down = g.value(node.inputs[3]).shape;
    ranks = a.group.size;
    blocks = a.blocks;
    experts = (g.value(node.inputs[1]).shape.count() - 1) / blocks;
    tensor_size = a.tensor_size;
    own = experts / (ranks / tensor_size);
    taken = rows[0];
    round_rows = a.round_rows;
    width = rows[1];
    wide = up[0] / own;
    inner = down[1];
    element = size_of(g.compute());
  }
  GroupedShape up() const { return {round_rows, width, wide, own, blocks}; }
  GroupedShape down() const { return {round_rows, inner, width, own, blocks}; }
  // The biases of an expert: those of up, then those of down.
  std::int64_t biases() const { return wide + width; }
  GroupBiasShape bias(std::int64_t cols, std::int64_t rows) const {
    return {rows, cols, own, biases(), blocks};
  }
  // Number of elements of an expert's larger weight.
  std::int64_t most_weights() const { return width * std::max(wide, inner); }
  // Number of rows that a rank receives with balanced load.
  std::int64_t even_rows() const { return taken * tensor_size; }
  // First expert of a rank, and its rank among those that share them.
  std::int64_t first_expert(int rank) const { return rank / tensor_size * own; }
  std::int64_t tensor_rank(int rank) const { return rank % tensor_size; }
  // Number of offsets of a source's rows, and of those for one owner.
  std::int64_t offsets() const { return experts * blocks + 1; }
  std::int64_t own_offsets() const { return own * blocks + 1; }
};

enum Products : std::uint8_t {
  up_forward,
  down_forward,
  up_input,
  down_input,
  up_weight,
  down_weight,
  products
};

GroupedShape shape_of(const Sizes& s, Products which) {
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
  const Sizes s(g, node);
  auto made = std::make_shared<Prepared>();
  for (int i = 0; i < count; ++i) {
    const auto which = static_cast<Products>(i);
    (*made)[i] = make_grouped(device, g, product_of(which), shape_of(s, which));
  }
  return made;
}

// Layout of the workspace; each part is aligned to a cache line.
class Scratch : public LineParts {
 public:
  Scratch(const Sizes& s, bool backward, bool fixed_point, bool biased) {
    const auto rows = [&](std::int64_t columns) { return add(s.round_rows * columns * s.element); };
    own_offsets = add(s.own_offsets() * size_of(DType::i32));
    all_offsets = add(s.ranks * s.offsets() * size_of(DType::i32));
    x = rows(s.width);
    wide = rows(s.wide);
    inner = rows(s.inner);
    y = rows(s.width);  // backward: the incoming gradient, then the outgoing one
    if (backward) {
      wide_grad = rows(s.wide);
      inner_grad = rows(s.inner);
    }
    if (fixed_point) weights = add(s.most_weights() * size_of(DType::f32));
    if (fixed_point && biased)
      biases = add(group_bias_scratch(std::max(s.wide, s.width), s.own, s.blocks));
    partial = add((s.tensor_size - 1) * s.taken * s.width * s.element);
    product = bytes;
  }

  std::int64_t own_offsets, all_offsets, x, wide, inner, y;
  std::int64_t partial;  // what all but the first part of the experts make of this rank's rows
  std::int64_t wide_grad = 0, inner_grad = 0, weights = 0, biases = 0, product;
};

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
  const Sizes s(g, node);
  std::int64_t most = 0;
  for (int i = 0; i < count; ++i) {
    const auto which = static_cast<Products>(i);
    most = std::max(most, grouped_workspace(target, g, product_of(which), shape_of(s, which)));
  }
  return Scratch(s, count == products, sums_integers(g, node), has_biases(node)).bytes + most;
}

// The turns of one pass, in the same order on all ranks.
class Exchange {
 public:
  Exchange(const Launch& l, const Scratch& scratch)
      : l_(l),
        s_(l.graph, l.node),
        scratch_(scratch),
        group_(group_of(l, l.node.as<RemoteExpertsAttributes>().group)) {
    read_offsets();
  }

  const Sizes& sizes() const { return s_; }
  template <class T = std::byte>
  T* at(std::int64_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(l_.workspace) + offset);
  }
  std::int64_t used_rows() const { return offsets_of(group_.rank())[s_.offsets() - 1]; }

  // `inputs`: rows by expert, and buffers for those of another rank. take(round, pointers to the
  // rows of each input) stores its results in `made`; they are sent to `output`, rows by expert,
  // summed over tensor ranks.
  struct Input {
    const std::byte* rows;
    std::byte* arrived;
  };
  template <class Take>
  void run(std::span<const Input> inputs, const std::byte* made, std::byte* output,
           const Take& take) const {
    const int ranks = group_.size(), rank = group_.rank();
    for (int turn = 0; turn < ranks; ++turn) {
      const int to = (rank + turn) % ranks, from = (rank + ranks - turn) % ranks;
      const std::vector<Round> goes = rounds(rank, to), comes = rounds(from, rank);
      for (std::size_t i = 0; i < std::max(goes.size(), comes.size()); ++i) {
        const Round go = i < goes.size() ? goes[i] : Round{};
        const Round come = i < comes.size() ? comes[i] : Round{};
        const std::byte* rows[2] = {};
        for (std::size_t k = 0; k < inputs.size(); ++k) {
          const std::byte* const own = inputs[k].rows + go.row * row_bytes();
          rows[k] = turn == 0 ? own : inputs[k].arrived;
          if (turn > 0) move(own, go.rows, to, inputs[k].arrived, come.rows, from);
        }
        if (come.rows > 0) {
          write_own_offsets(from, come);
          take(come, rows);
        }
        std::byte* const result = results_of(to, output) + go.row * row_bytes();
        if (turn == 0) {
          l_.queue.copy(result, made, go.rows * row_bytes());
        } else {
          move(made, come.rows, from, result, go.rows, to);
        }
      }
    }
    add_partial(output);
    const std::int64_t rest = s_.taken - used_rows();
    if (rest > 0) l_.queue.fill(output + used_rows() * row_bytes(), 0, rest * row_bytes());
  }

 private:
  std::int64_t row_bytes() const { return s_.width * s_.element; }
  const std::int32_t* offsets_of(int source) const {
    return offsets_.data() + source * s_.offsets();
  }
  std::vector<Round> rounds(int source, int owner) const {
    const std::int64_t first = s_.first_expert(owner);
    return rounds_of(offsets_of(source), s_.blocks, first, first + s_.own, s_.round_rows);
  }
  // Buffer for an owner's results of this rank's rows: the first part is written to the output.
  std::byte* results_of(int owner, std::byte* output) const {
    const std::int64_t part = s_.tensor_rank(owner);
    return part == 0 ? output : at(scratch_.partial) + (part - 1) * s_.taken * row_bytes();
  }
  void add_partial(std::byte* output) const {
    const std::int64_t count = used_rows() * s_.width, stride = s_.taken * s_.width;
    if (s_.tensor_size == 1 || count == 0) return;
    // Part k of reduce_parts is from tensor rank k, and the first is in the output.
    l_.device.state_kernels().reduce_parts(l_.queue, l_.graph.compute(), false, output, output,
                                           at(scratch_.partial) - stride * s_.element, stride,
                                           static_cast<int>(s_.tensor_size), 0, count);
  }

  // Offsets of all ranks' rows; when only planning, loads are assumed to be balanced.
  void read_offsets() {
    const std::int64_t count = s_.offsets();
    group_.all_gather(l_.queue, l_.in[1], at(scratch_.all_offsets), count, DType::i32);
    offsets_.resize(static_cast<std::size_t>(s_.ranks * count));
    l_.device.read(at(scratch_.all_offsets), s_.ranks * count * size_of(DType::i32),
                   [&](const std::byte* host) {
                     std::copy_n(reinterpret_cast<const std::int32_t*>(host), offsets_.size(),
                                 offsets_.begin());
                   });
    if (l_.device.computes()) return;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      const std::int64_t before = static_cast<std::int64_t>(i) % count;
      offsets_[i] = static_cast<std::int32_t>(before * s_.taken / (count - 1));
    }
  }

  // Start of each of this rank's experts among the received rows.
  void write_own_offsets(int source, const Round& round) const {
    const std::int32_t* const all = offsets_of(source) + s_.first_expert(group_.rank()) * s_.blocks;
    l_.device.write(at(scratch_.own_offsets), s_.own_offsets() * size_of(DType::i32),
                    [&](std::byte* host) {
                      auto* const own = reinterpret_cast<std::int32_t*>(host);
                      for (std::int64_t i = 0; i < s_.own_offsets(); ++i) {
                        own[i] = static_cast<std::int32_t>(
                            std::clamp<std::int64_t>(all[i] - round.row, 0, round.rows));
                      }
                    });
  }

  void move(const std::byte* src, std::int64_t sent, int to, std::byte* dst, std::int64_t received,
            int from) const {
    group_.send_receive(l_.queue, src, sent * s_.width, to, dst, received * s_.width, from,
                        l_.graph.compute());
  }

  const Launch& l_;
  const Sizes s_;
  const Scratch& scratch_;
  RankGroup& group_;
  std::vector<std::int32_t> offsets_;
};

// Products of the rows of one round.
class RoundProducts {
 public:
  RoundProducts(const Launch& l, const Exchange& exchange, const Scratch& scratch)
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
  void add_blocks(Products which, int output, const Sizes& s, const void* dy, const void* x,
                  void* made) const {
    add_groups(l_, output, *made_[which], shape_of(s, which), dy, x, offsets_, made, workspace_);
  }

 private:
  const Launch& l_;
  const Prepared& made_;
  const Sizes& sizes_;
  const std::int32_t* offsets_;
  void *sums_, *workspace_;
};

// Storage of the first product of each round between the passes, which take the same rounds.
template <class T>
class KeptRows {
 public:
  KeptRows(T* rows, const Sizes& s) : rows_(rows), left_(s.even_rows()), width_(s.wide) {}

  // Null if there is no space for a round.
  T* next(const Round& round) {
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
  const Sizes s(g, node);
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
  const Sizes s(g, node);
  return 2.0 * static_cast<double>(s.even_rows()) * static_cast<double>(s.width) *
         static_cast<double>(s.wide + s.inner);
}

// Computes both gradients together, so that rows are not sent more often than necessary.
double flops_grad(const Graph& g, const Node& node) {
  return 2 * flops(g, node);
}

void launch(const Launch& l) {
  const Scratch scratch(Sizes(l.graph, l.node), false, false, false);
  const Exchange exchange(l, scratch);
  const Sizes& s = exchange.sizes();
  const RoundProducts product(l, exchange, scratch);
  const Exchange::Input inputs[] = {{l.input<std::byte>(0), exchange.at(scratch.x)}};
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    KeptRows<T> kept(l.output<T>(1), s);
    exchange.run(inputs, exchange.at(scratch.y), l.output<std::byte>(0),
                 [&](const Round& round, const std::byte* const* rows) {
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

// Permutes the rows again: received rows are not saved at the experts' ranks.
ValueId permute_again(GradientBuilder& b, ValueId x) {
  for (const Node& node : b.graph().forward) {
    if (node.op != OpKind::permute_rows || node.outputs[0] != x) continue;
    const auto inputs = node.inputs;
    return b
        .emit(Phase::input_grad, OpKind::permute_rows, node.attributes,
              {inputs[0], inputs[1], inputs[2]})
        .outputs[0];
  }
  return x;
}

void gradient(GradientBuilder& b, const Node& node) {
  const ValueId rows = node.inputs[0], offsets = node.inputs[1];
  const ValueId up = node.inputs[2], down = node.inputs[3], biases = node.inputs[4];
  const ValueId dy = b.grad(node.outputs[0]), again = permute_again(b, rows);
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
void add_weight_grad(const Launch& l, const Exchange& exchange, const Scratch& scratch,
                     const RoundProducts& product, Products which, const void* dy, const void* x) {
  const int output = which == up_weight ? 1 : 2;
  if (!sums_integers(l.graph, l.node)) return product(which, l.out[output], dy, x, true);
  product.add_blocks(which, output, exchange.sizes(), dy, x, exchange.at(scratch.weights));
}

void launch_grad(const Launch& l) {
  const Scratch scratch(Sizes(l.graph, l.node), true, sums_integers(l.graph, l.node),
                        has_biases(l.node));
  const Exchange exchange(l, scratch);
  const Sizes& s = exchange.sizes();
  const RoundProducts product(l, exchange, scratch);
  for (int i = 1; i <= 3 && !l.accumulate; ++i)
    if (l.out[i]) l.queue.fill(l.out[i], 0, l.output_value(i).bytes());
  const Exchange::Input inputs[] = {{l.input<std::byte>(0), exchange.at(scratch.x)},
                                    {l.input<std::byte>(4), exchange.at(scratch.y)}};
  const ActivationRule& rule = l.node.as<RemoteExpertsAttributes>().activation;
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    // Saved rows are only read here.
    KeptRows<T> kept(const_cast<T*>(l.input<T>(5)), s);
    T* const inner = exchange.at<T>(scratch.inner);
    T* const dwide = exchange.at<T>(scratch.wide_grad);
    T* const dinner = exchange.at<T>(scratch.inner_grad);
    exchange.run(inputs, exchange.at(scratch.y), l.output<std::byte>(0),
                 [&](const Round& round, const std::byte* const* rows) {
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
                   kernels<T>(l).activation_grad(l.queue, rule, dwide, dinner, wide, round.rows,
                                                 s.inner);
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
