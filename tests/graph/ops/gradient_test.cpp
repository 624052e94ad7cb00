// Tests of every op with a gradient rule, in isolation, against central differences in double.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "graph/autodiff.h"
#include "graph/ops/interpreter.h"
#include "graph/ops/ops.h"

namespace trireme {
namespace {

using namespace testing_ops;

ValueId parameter(Graph& g, Shape shape) {
  return g.parameter({"p" + std::to_string(g.parameters().size()), shape, {}});
}

// Returns a new activation of the segment's input. Ops under test are between linears: some work in
// place, which they must not do on the input or the output of the segment.
ValueId activation_of(Graph& g, ValueId x, std::int64_t columns) {
  return ops::linear(g, x, parameter(g, {columns, g.value(x).shape.back()}), no_value);
}

ValueId sample_ids(Graph& g) {
  return g.batch(BatchInput::sample_ids, DType::i64, {batch});
}
ValueId positions(Graph& g) {
  return g.batch(BatchInput::positions, DType::i32, {rows});
}

constexpr DropoutRule no_dropout{}, dropping{0.3f, 2};

struct Case {
  std::string name;
  void (*build)(Graph&);
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

// --- norms
template <NormKind kind, bool bias>
void build_norm(Graph& g) {
  const ValueId x = activation_of(g, g.segment_input({rows, 4}), 7);
  g.set_output(ops::norm(g, x, parameter(g, {7}), bias ? parameter(g, {7}) : no_value, kind, 1e-5));
}
template <NormKind kind>
void build_zero_centered_norm(Graph& g) {
  const ValueId x = activation_of(g, g.segment_input({rows, 4}), 7);
  const ValueId bias = kind == NormKind::layer_norm ? parameter(g, {7}) : no_value;
  g.set_output(ops::norm(g, x, parameter(g, {7}), bias, kind, 1e-5, true));
}
template <NormKind kind, const DropoutRule& dropout>
void build_add_norm(Graph& g) {
  const ValueId input = g.segment_input({rows, 4});
  const ValueId x = activation_of(g, input, 7), delta = activation_of(g, input, 7);
  const ValueId bias = kind == NormKind::layer_norm ? parameter(g, {7}) : no_value;
  const auto [sum, normed] =
      ops::add_norm(g, x, delta, parameter(g, {7}), bias, kind, 1e-5, sample_ids(g), dropout);
  // Both results are used, as in a transformer block.
  g.set_output(ops::add(g, sum, activation_of(g, normed, 7), no_value, no_dropout, seq));
}

// --- linear
template <bool bias>
void build_linear(Graph& g) {
  const ValueId x = g.segment_input({rows, 6});
  g.set_output(ops::linear(g, x, parameter(g, {9, 6}), bias ? parameter(g, {9}) : no_value));
}

// --- activations
template <ActivationKind kind>
void build_activation(Graph& g) {
  g.set_output(ops::activation(g, activation_of(g, g.segment_input({rows, 4}), 10), kind));
}

// swiglu with all parameters of its rule; the clamp affects some gates and some of their factors.
void build_adjusted_gate(Graph& g) {
  ActivationRule rule = ActivationKind::swiglu;
  rule.gate_alpha = 1.7;
  rule.gate_offset = 1;
  rule.clamp = 0.4;
  g.set_output(ops::activation(g, activation_of(g, g.segment_input({rows, 4}), 10), rule));
}

// --- attention: two groups of three queries
constexpr std::int64_t groups = 2, queries = 3, head_dim = 4;
constexpr std::int64_t qkv_columns = groups * (queries + 2) * head_dim;

template <bool all_heads, bool zero_centered = false>
void build_head_norm(Graph& g) {
  const ValueId qkv = activation_of(g, g.segment_input({rows, 4}), qkv_columns);
  const std::int64_t query_heads = all_heads ? groups * queries : 1;
  const std::int64_t key_heads = all_heads ? groups : 1;
  const ValueId weight = parameter(g, {query_heads * head_dim});
  HeadNormAttributes a{{groups, queries, head_dim, 1e-3, all_heads}};
  a.zero_centered = zero_centered;
  g.set_output(
      activation_of(g, ops::head_norm(g, qkv, weight, parameter(g, {key_heads * head_dim}), a), 5));
}
template <std::int64_t rotary_dim, bool factors = false>
void build_rope(Graph& g) {
  const ValueId qkv = activation_of(g, g.segment_input({rows, 4}), qkv_columns);
  const Shape tables = {seq, rotary_dim / 2};
  const ValueId rotated =
      ops::rope(g, qkv, g.constant(ConstantInput::rope_cos, DType::f64, tables),
                g.constant(ConstantInput::rope_sin, DType::f64, tables), positions(g),
                {seq, groups, queries, head_dim, rotary_dim, +1},
                factors ? g.constant(ConstantInput::query_factor, DType::f64, {seq}) : no_value);
  g.set_output(activation_of(g, rotated, 5));
}
template <bool causal, bool packed, const DropoutRule& dropout, bool padded = false,
          std::int64_t alibi_heads = 0, bool capped = false, bool sinks = false>
void build_attention(Graph& g) {
  const ValueId qkv = activation_of(g, g.segment_input({rows, 4}), qkv_columns);
  AttentionAttributes a{};
  a.batch = batch;
  a.seq = seq;
  a.groups = groups;
  a.queries_per_group = queries;
  a.head_dim = head_dim;
  a.causal = causal;
  a.scale = 0.7;
  a.dropout = dropout;
  a.alibi_heads = alibi_heads;
  if (capped) a.soft_cap = 0.8;
  const ValueId first_visible =
      packed ? g.batch(BatchInput::first_visible, DType::i32, {rows}) : no_value;
  const ValueId ids = dropout.probability > 0 ? sample_ids(g) : no_value;
  const ValueId lengths = padded ? g.batch(BatchInput::lengths, DType::i32, {batch}) : no_value;
  const ValueId scored = sinks ? parameter(g, {groups * queries}) : no_value;
  g.set_output(ops::attention(g, qkv, first_visible, ids, a, lengths, scored));
}

// Two heads: values narrower than queries and keys, or of equal width.
template <std::int64_t value_dim>
void build_latent_heads(Graph& g) {
  constexpr LatentAttributes heads{2, 5, 2, value_dim};
  const ValueId x = g.segment_input({rows, 4});
  const ValueId q = activation_of(g, x, 2 * 5), kv = activation_of(g, x, 2 * (3 + value_dim));
  const ValueId qkv = ops::latent_heads(g, q, kv, activation_of(g, x, 2), heads);
  AttentionAttributes a{};
  a.batch = batch;
  a.seq = seq;
  a.groups = 2;
  a.queries_per_group = 1;
  a.head_dim = 5;
  a.causal = true;
  a.scale = 0.7;
  const ValueId context = ops::attention(g, qkv, no_value, no_value, a);
  g.set_output(activation_of(g, ops::narrow_heads(g, context, heads), 3));
}

// --- residual additions, dropout alone, factors, slices
void build_scale(Graph& g) {
  const ValueId x = activation_of(g, g.segment_input({rows, 4}), 6);
  g.set_output(activation_of(g, ops::scale(g, x, -1.7), 4));
}
void build_soft_cap(Graph& g) {
  const ValueId x = activation_of(g, g.segment_input({rows, 4}), 6);
  g.set_output(activation_of(g, ops::soft_cap(g, x, 1.3), 4));
}
template <bool both, const DropoutRule& dropout>
void build_add(Graph& g) {
  const ValueId x = g.segment_input({rows, 4});
  const ValueId a = both ? activation_of(g, x, 6) : no_value;
  g.set_output(ops::add(g, a, activation_of(g, x, 6), sample_ids(g), dropout, seq));
}
void build_slices(Graph& g) {
  const ValueId x = activation_of(g, g.segment_input({rows, 4}), 6);
  const ValueId head = activation_of(g, ops::slice(g, x, 0, rows / 2), 3);
  const ValueId tail = activation_of(g, ops::slice(g, x, rows / 2, rows / 2), 3);
  g.set_output(ops::add(g, head, tail, no_value, no_dropout, seq));
}

// Takes some rows twice, and reads the whole value as well.
void build_take_rows(Graph& g) {
  const ValueId x = activation_of(g, g.segment_input({rows, 4}), 6);
  const ValueId taken = ops::gather(g, x, g.batch(BatchInput::predicted_rows, DType::i32, {rows}));
  g.set_output(
      ops::add(g, activation_of(g, taken, 3), activation_of(g, x, 3), no_value, no_dropout, seq));
}

// --- mixture of experts: four experts, two per row, with other layers before and after
struct Router {
  bool sigmoid = false, normalize = true;
  std::int64_t groups = 1, capacity = 0;
  bool gate = false, biased = false, scales_inputs = false;
};
constexpr Router over_the_chosen{}, over_all{false, false}, sigmoids{true, true},
    bare_sigmoids{true, false}, in_groups{true, true, 2}, dropping_rows{false, true, 1, 2},
    gated{true, true, 1, 0, true}, biased{false, true, 1, 0, false, true},
    biased_and_dropping{false, true, 1, 2, false, true},
    scaling_inputs{true, false, 1, 0, false, false, true},
    scaling_and_dropping{true, false, 1, 2, false, false, true};

template <const Router& kind>
void build_experts(Graph& g) {
  constexpr std::int64_t experts = 4, top_k = 2, inner = 5;
  const ValueId x = activation_of(g, g.segment_input({rows, 4}), 6);
  const ops::Routes routes =
      ops::route(g,
                 ops::router(g, x, parameter(g, {experts, 6}),
                             kind.biased ? parameter(g, {experts}) : no_value),
                 {{top_k, kind.sigmoid, kind.normalize, 1.5, kind.groups, 1}, {0, 0, seq, seq}});
  const ops::Places places = ops::dispatch(g, routes, {experts, kind.capacity, seq, true});
  const ValueId spread =
      ops::permute_rows(g, x, places, rows * top_k, kind.scales_inputs ? routes.weights : no_value);
  const std::int64_t wide = 2 * inner, each = wide + 6;
  const ValueId biases = kind.biased ? parameter(g, {experts * each}) : no_value;
  const ValueId up = ops::grouped_linear(g, spread, parameter(g, {experts * wide, 6}),
                                         places.offsets, 1, {biases, 0, each});
  const ValueId down = ops::grouped_linear(g, ops::activation(g, up, ActivationKind::swiglu),
                                           parameter(g, {experts * 6, inner}), places.offsets, 1,
                                           {biases, wide, each});
  ValueId made = kind.scales_inputs ? ops::unpermute_rows(g, down, places)
                                    : ops::combine(g, down, routes, places);
  if (kind.gate) made = ops::gate_rows(g, made, ops::router(g, x, parameter(g, {1, 6})));
  g.set_output(ops::add(g, x, made, no_value, no_dropout, seq));
}

void build_mix_rows(Graph& g) {
  const ValueId x = g.segment_input({rows, 4});
  const ValueId a = activation_of(g, x, 7), b = activation_of(g, x, 7);
  g.set_output(activation_of(g, ops::mix_rows(g, a, b, activation_of(g, x, 2)), 3));
}

// --- embedding; with first_id 3, IDs below it and the last one belong to other ranks
template <std::int64_t first_id, bool with_positions, bool with_types = false>
void build_embedding(Graph& g) {
  const ValueId tokens = g.batch(BatchInput::tokens, DType::i32, {rows});
  const ValueId table = parameter(g, {first_id == 0 ? vocab : vocab - first_id - 1, 6});
  const ValueId position_table = with_positions ? parameter(g, {seq + 2, 6}) : no_value;
  g.set_output(ops::embedding(
      g, tokens, table, with_positions ? positions(g) : no_value, position_table, first_id,
      with_types ? g.batch(BatchInput::segments, DType::i32, {rows}) : no_value,
      with_types ? parameter(g, {2, 6}) : no_value));
}

// --- loss, with a padded vocabulary
template <std::int64_t first_rows, bool capped = false>
void build_cross_entropy(Graph& g) {
  const ValueId x = activation_of(g, g.segment_input({rows, 4}), 6);
  const ValueId table = parameter(g, {vocab + 3, 6});
  const ValueId targets = g.batch(BatchInput::targets, DType::i32, {rows});
  const ValueId weights = g.batch(BatchInput::loss_weights, DType::f32, {rows});
  const ValueId loss = g.new_value(DType::f64, {rows});
  g.set_result(loss, ResultOutput::token_loss);
  for (std::int64_t first = 0; first < rows; first += first_rows) {
    const std::int64_t count = std::min(first_rows, rows - first);
    ValueId logits = ops::linear(g, ops::slice(g, x, first, count), table, no_value);
    if (capped) logits = ops::soft_cap(g, logits, 1.5);
    const ValueId part = ops::cross_entropy(g, logits, ops::slice(g, targets, first, count),
                                            ops::slice(g, weights, first, count), vocab);
    g.place_in(part, loss, first * 8);
  }
}

// --- linear attention
ops::SequenceInputs places(Graph& g, bool packed) {
  return {.first_visible =
              packed ? g.batch(BatchInput::first_visible, DType::i32, {rows}) : no_value};
}

template <bool packed>
void build_short_conv(Graph& g) {
  const ValueId x = activation_of(g, g.segment_input({rows, 4}), 6), weight = parameter(g, {6, 3});
  const ValueId y = ops::short_conv(g, x, weight, packed ? parameter(g, {6}) : no_value,
                                    {{batch, seq}, 6, 3}, places(g, packed));
  g.set_output(activation_of(g, y, 5));
}

// Two groups of two heads each.
template <bool packed>
void build_delta_rule(Graph& g) {
  constexpr DeltaRule rule{{batch, seq}, 2, 2, 3, 4};
  const ValueId x = g.segment_input({rows, 4});
  const ValueId rates =
      ops::decay_rates(g, activation_of(g, x, 8), parameter(g, {4}), parameter(g, {4}), {2, 2});
  const ValueId y =
      ops::delta_rule(g, activation_of(g, x, rule.qkv_cols()), rates, rule, places(g, packed));
  g.set_output(activation_of(g, y, 5));
}

template <bool packed>
void build_state_space(Graph& g) {
  constexpr DeltaRule rule{{batch, seq}, 2, 2, 3, 4, true};
  const ValueId x = g.segment_input({rows, 4});
  const ValueId steps = activation_of(g, x, 4), a_log = parameter(g, {4});
  const ValueId dt_bias = parameter(g, {4});
  const ValueId rates = ops::decay_rates(g, steps, a_log, dt_bias, {2, 2, true}, parameter(g, {4}));
  const ValueId y =
      ops::delta_rule(g, activation_of(g, x, rule.qkv_cols()), rates, rule, places(g, packed));
  g.set_output(activation_of(g, y, 5));
}

template <bool norm, bool gates_first = false>
void build_gate_heads(Graph& g) {
  const ValueId x = g.segment_input({rows, 4});
  const ValueId values = activation_of(g, x, 6), gate = activation_of(g, x, 6);
  const ValueId weight = norm ? parameter(g, {gates_first ? 6 : 3}) : no_value;
  const GateHeadsAttributes attributes{{3, norm, norm, norm ? 1e-3 : 0, gates_first}};
  g.set_output(activation_of(g, ops::gate_heads(g, values, gate, weight, attributes), 5));
}

using enum ActivationKind;
using enum NormKind;

// Concatenates the two halves of the columns, in two parts and in reverse.
void build_reorder(Graph& g) {
  ReorderAttributes order{2 * rows, 3, 2, {}};
  for (BlockCopy& copy : order.copies) {
    copy.counts[0] = rows;
    copy.dst_strides[0] = 3;
    copy.src_strides[0] = 6;
    copy.width = 3;
  }
  order.copies[1].src_first = 3;
  order.copies[1].dst_first = (2 * rows - 1) * 3;
  order.copies[1].dst_strides[0] = -3;
  const ValueId x = activation_of(g, g.segment_input({rows, 4}), 6);
  g.set_output(activation_of(g, ops::reorder(g, x, order), 4));
}

const std::vector<Case> cases = {
    {"LayerNorm", build_norm<layer_norm, true>},
    {"LayerNormWithoutBias", build_norm<layer_norm, false>},
    {"RmsNorm", build_norm<rms_norm, false>},
    {"ZeroCenteredLayerNorm", build_zero_centered_norm<layer_norm>},
    {"ZeroCenteredRmsNorm", build_zero_centered_norm<rms_norm>},
    {"AddLayerNorm", build_add_norm<layer_norm, no_dropout>},
    {"AddLayerNormDropout", build_add_norm<layer_norm, dropping>},
    {"AddRmsNorm", build_add_norm<rms_norm, no_dropout>},
    {"AddRmsNormDropout", build_add_norm<rms_norm, dropping>},
    {"Linear", build_linear<false>},
    {"LinearBias", build_linear<true>},
    {"GeluTanh", build_activation<gelu_tanh>},
    {"GeluErf", build_activation<gelu_erf>},
    {"Silu", build_activation<silu>},
    {"SquaredRelu", build_activation<squared_relu>},
    {"Tanh", build_activation<ActivationKind::tanh>},
    {"Swiglu", build_activation<swiglu>},
    {"Geglu", build_activation<geglu>},
    {"SwigluWithAClamp", build_adjusted_gate},
    {"HeadNorm", build_head_norm<false>},
    {"NormOfAllHeads", build_head_norm<true>},
    {"HeadNormOfOnePlusWeight", build_head_norm<false, true>},
    {"NormOfAllHeadsOfOnePlusWeight", build_head_norm<true, true>},
    {"Rope", build_rope<4>},
    {"RopeWithFactorsOfQueries", build_rope<2, true>},
    {"RopeOfHalfTheHead", build_rope<2>},
    {"Attention", build_attention<true, false, no_dropout>},
    {"AttentionDropout", build_attention<true, false, dropping>},
    {"AttentionBothWays", build_attention<false, false, no_dropout>},
    {"AttentionBothWaysDropout", build_attention<false, false, dropping>},
    {"AttentionWithinDocuments", build_attention<true, true, no_dropout>},
    {"AttentionWithinDocumentsDropout", build_attention<true, true, dropping>},
    {"AttentionWithPadding", build_attention<false, false, no_dropout, true>},
    {"AttentionWithPaddingDropout", build_attention<false, false, dropping, true>},
    {"AttentionWithSlopes", build_attention<true, false, no_dropout, false, 6>},
    {"AttentionWithACap", build_attention<true, false, no_dropout, false, 0, true>},
    {"AttentionBothWaysWithACapAndDropout", build_attention<false, false, dropping, true, 0, true>},
    {"AttentionWithSinks", build_attention<true, false, no_dropout, false, 0, false, true>},
    {"AttentionWithinDocumentsWithSinksAndDropout",
     build_attention<true, true, dropping, false, 0, false, true>},
    {"LatentHeads", build_latent_heads<3>},
    {"LatentHeadsWithWideValues", build_latent_heads<5>},
    {"ShortConv", build_short_conv<false>},
    {"ShortConvWithinDocuments", build_short_conv<true>},
    {"DeltaRule", build_delta_rule<false>},
    {"DeltaRuleWithinDocuments", build_delta_rule<true>},
    {"StateSpace", build_state_space<false>},
    {"StateSpaceWithinDocuments", build_state_space<true>},
    {"GateHeads", build_gate_heads<false>},
    {"GateNormalizedHeads", build_gate_heads<true>},
    {"NormGatedHeads", build_gate_heads<true, true>},
    {"Reorder", build_reorder},
    {"Add", build_add<true, no_dropout>},
    {"AddDropout", build_add<true, dropping>},
    {"DropoutAlone", build_add<false, dropping>},
    {"Scale", build_scale},
    {"SoftCap", build_soft_cap},
    {"Slices", build_slices},
    {"TakeRows", build_take_rows},
    {"ExpertsWeighedOverTheChosen", build_experts<over_the_chosen>},
    {"ExpertsWeighedOverAll", build_experts<over_all>},
    {"ExpertsWithSigmoids", build_experts<sigmoids>},
    {"ExpertsWithBareSigmoids", build_experts<bare_sigmoids>},
    {"ExpertsInGroups", build_experts<in_groups>},
    {"ExpertsThatDrop", build_experts<dropping_rows>},
    {"ExpertsWithAGate", build_experts<gated>},
    {"ExpertsWithBiases", build_experts<biased>},
    {"ExpertsWithBiasesThatDrop", build_experts<biased_and_dropping>},
    {"ExpertsOfScaledInputs", build_experts<scaling_inputs>},
    {"ExpertsOfScaledInputsThatDrop", build_experts<scaling_and_dropping>},
    {"MixRows", build_mix_rows},
    {"Embedding", build_embedding<0, false>},
    {"EmbeddingOfARank", build_embedding<3, false>},
    {"EmbeddingWithPositions", build_embedding<0, true>},
    {"EmbeddingWithTypes", build_embedding<0, true, true>},
    {"CrossEntropy", build_cross_entropy<rows>},
    {"CrossEntropyInSlices", build_cross_entropy<3>},
    {"CrossEntropyOfCappedLogits", build_cross_entropy<3, true>},
};

// Perturbs every element of `at`, and compares with its gradient.
void check(Interpreter& run, double* at, std::int64_t count, const std::vector<double>& gradient,
           const std::string& what) {
  constexpr double h = 1e-5;
  for (std::int64_t i = 0; i < count; ++i) {
    const double kept = at[i];
    at[i] = kept + h;
    const double above = run.objective();
    at[i] = kept - h;
    const double below = run.objective();
    at[i] = kept;
    const double expected = (above - below) / (2 * h);
    ASSERT_NEAR(gradient[i], expected, 1e-8 + 1e-7 * std::abs(expected)) << what << " at " << i;
  }
}

class OpGradient : public testing::TestWithParam<Case> {};

TEST_P(OpGradient, MatchesCentralDifferences) {
  Graph g(DType::f64);
  GetParam().build(g);
  differentiate(g);
  struct Pair {
    ValueId value, gradient;
  };
  std::vector<Pair> pairs;
  for (ValueId id = 0, count = g.value_count(); id < count; ++id) {
    const Role role = g.value(id).role;
    if (role == Role::parameter) pairs.push_back({id, g.gradient_of(id)});
    if (role == Role::input) pairs.push_back({id, g.input_grad()});
  }
  ASSERT_FALSE(pairs.empty());
  Interpreter run(g);
  run.objective();
  run.run_backward();
  for (const auto& [id, gradient_id] : pairs) {
    const std::int64_t count = g.value(id).shape.count();
    const double* from = run.data(gradient_id);
    check(run, run.data(id), count, std::vector<double>(from, from + count),
          "value " + std::to_string(id));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, OpGradient, testing::ValuesIn(cases),
                         [](const auto& info) { return info.param.name; });

TEST(OpTable, HasEveryOpWithAGradientRule) {
  std::set<OpKind> seen;
  for (const Case& one : cases) {
    Graph g(DType::f64);
    one.build(g);
    for (const Node& node : g.forward) seen.insert(node.op);
  }
  // Collectives need ranks: see tests/parallel/tensor_ops_test.cpp and, in tests/train/,
  // context_test.cpp, expert_parallel_test.cpp and exact_leaves_test.cpp.
  for (const OpKind collective :
       {OpKind::grad_all_reduce, OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter,
        OpKind::local_rows, OpKind::all_to_all, OpKind::context_attention, OpKind::ring_attention,
        OpKind::remote_experts}) {
    seen.insert(collective);
  }
  for (int i = 0; i < static_cast<int>(OpKind::count); ++i) {
    const OpDefinition& op = definition(static_cast<OpKind>(i));
    if (op.gradient) {
      EXPECT_TRUE(seen.contains(static_cast<OpKind>(i))) << op.name << " has no row in the table";
    }
  }
}

}  // namespace
}  // namespace trireme
