// Mixture-of-experts MLP: a router, the experts that it selects for each row, and optionally a
// shared expert for all rows.
#include <algorithm>
#include <cmath>

#include "model/builder.h"

namespace trireme {
namespace {

using Init = ParameterSpec::Init;

// Weights of all experts of a layer, one after the other, or of those that this rank has: [experts
// * matrices * out, in].
struct ExpertWeights {
  std::string name;
  std::int64_t out, in;
  int matrices;
  double init_std;

  // Sharded along `out` or along `in` if experts are sharded.
  ValueId operator()(Graph& g, const ExpertParallel& ep, std::int64_t experts,
                     bool cuts_out) const {
    const std::int64_t own = ep.share(experts), all = matrices * out;
    const std::int64_t part = cuts_out ? out / ep.tensor_size : out;
    const std::int64_t columns = cuts_out ? in : in / ep.tensor_size;
    ParameterSpec spec{
        name, {own * matrices * part, columns}, {experts * all, in}, Init::normal, init_std, true};
    spec.matrix_rows.assign(static_cast<std::size_t>(own * matrices), part);
    if (ep.apart) {
      spec.of_experts = true;
      spec.expert_elements_before = ep.owner() * spec.shape.count();
      const std::int64_t first = ep.owner() * own * all;
      if (part == out) spec.pieces = {{0, first, own * all}};
      for (std::int64_t m = 0; part < out && m < own * matrices; ++m)
        spec.pieces.push_back({m * part, first + m * out + ep.tensor_rank() * part, part});
    }
    if (!cuts_out) spec.first_column = ep.tensor_rank() * columns;
    spec.fixed_point = ep.size > 1 && ep.exact && g.exact_block() == 0;
    return g.parameter(std::move(spec));
  }
};

// Of each expert the biases of both linear layers, `each` numbers; or of those that this rank has.
ValueId expert_biases(Graph& g, const ExpertParallel& ep, std::int64_t experts, std::int64_t each) {
  const std::int64_t own = ep.share(experts) * each;
  ParameterSpec spec{"mlp.experts.bias", {own}, {experts * each}, Init::zeros, 0, false};
  if (ep.apart) {
    spec.of_experts = true;
    spec.expert_elements_before = ep.owner() * own;
    spec.pieces = {{0, ep.owner() * own, own}};
  }
  spec.fixed_point = ep.size > 1 && ep.exact && g.exact_block() == 0;
  return g.parameter(std::move(spec));
}

// Number of rows of another rank that an owner receives per round: their even share, and at least
// all rows of one expert.
std::int64_t round_rows(const ExpertConfig& moe, const ExpertParallel& ep, std::int64_t rows) {
  return rows * ((moe.top_k + ep.owners() - 1) / ep.owners());
}

// Expert capacity per sequence: an even share of the choices, times the capacity factor.
std::int64_t capacity_of(const ExpertConfig& moe, std::int64_t count, std::int64_t seq) {
  const double even = static_cast<double>(seq * moe.top_k) / static_cast<double>(count);
  return static_cast<std::int64_t>(std::ceil(even * moe.capacity_factor));
}

}  // namespace

ValueId Builder::for_own_rows(Graph& g, ParameterSpec spec) const {
  spec.partial_gradient = tp_.splits_rows();
  return g.parameter(std::move(spec));
}

ValueId Builder::row_weight(Graph& g, const std::string& name, std::int64_t out) const {
  const Shape shape = {out, m_.hidden_size};
  return for_own_rows(g, {name, shape, shape, Init::normal, hidden_std(), true});
}

RouteAttributes Builder::route_attributes() const {
  const ExpertConfig& moe = m_.moe;
  RouteAttributes route{};
  route.top_k = moe.top_k;
  route.sigmoid = moe.score == RouterScore::sigmoid;
  route.normalize = moe.normalize_weights;
  route.scaling = moe.scaling_factor;
  route.groups = moe.num_groups;
  route.top_groups = moe.top_groups;
  route.losses = {.aux_coeff = moe.aux_loss_coeff,
                  .z_coeff = moe.z_loss_coeff,
                  .unit_rows = moe.aux_loss == BalanceScope::batch ? rows_ : seq_,
                  .seq = seq_,
                  .first_row = tp_.first_row(rows_)};
  route.all_rows = rows_;
  if (tp_.splits_rows()) route.tensor = tp_.group();
  route.context = options_.context.group();
  return route;
}

ops::Routes Builder::routes(Graph& g, ValueId x, std::int64_t count) const {
  const ExpertConfig& moe = m_.moe;
  const auto of_experts = [&](const char* name, Init init) {
    return ParameterSpec{name, {count}, {count}, init, 0, false};
  };
  const ValueId router = row_weight(g, "mlp.router.weight", count);
  ValueId bias = no_value, load = no_value, logit_bias = no_value;
  if (moe.expert_bias) {
    ParameterSpec spec = of_experts("mlp.router.bias", Init::zeros);
    spec.counts = ParameterSpec::Counts::bias;
    spec.balance_rate = moe.bias_update_rate;
    bias = for_own_rows(g, std::move(spec));
  }
  if (moe.keeps_load()) {
    ParameterSpec spec = of_experts("mlp.router.load", Init::ones);
    spec.counts = ParameterSpec::Counts::load;
    load = for_own_rows(g, std::move(spec));
  }
  if (moe.router_bias)
    logit_bias = for_own_rows(g, of_experts("mlp.router.logit_bias", Init::zeros));
  return ops::route(g, ops::router(g, x, router, logit_bias), route_attributes(), bias, load);
}

DispatchRule Builder::dispatch_rule(const Graph& g, std::int64_t count) const {
  const ExpertConfig& moe = m_.moe;
  DispatchRule dispatch{};
  dispatch.experts = count;
  // Tokens are dropped in training only, so that validation matches generation.
  dispatch.capacity = dropout_ && moe.capacity_factor > 0 ? capacity_of(moe, count, seq_) : 0;
  dispatch.unit_rows = seq_;
  dispatch.by_weight = moe.drop_policy == DropPolicy::weight;
  if (g.exact_block() > 0) dispatch.blocks = local_rows_ / g.exact_block();
  return dispatch;
}

ValueId Builder::chosen_experts(Graph& g, ValueId x, std::int64_t count) const {
  const ExpertConfig& moe = m_.moe;
  const std::int64_t hidden = m_.hidden_size, inner = moe.ffn_hidden_size;
  const ActivationRule rule = activation_rule();
  const int blocks = is_gated(rule.kind) ? 2 : 1;

  const ops::Routes routes = this->routes(g, x, count);
  const DispatchRule dispatch = dispatch_rule(g, count);
  const ops::Places places = ops::dispatch(g, routes, dispatch);
  std::int64_t taken = local_rows_ * moe.top_k;
  if (dispatch.capacity > 0) taken = std::min(taken, options_.batch * dispatch.capacity * count);

  const ExpertParallel& ep = options_.expert;
  const ValueId up = ExpertWeights{"mlp.experts.up.weight", inner, hidden, blocks, hidden_std()}(
      g, ep, count, true);
  const ValueId down =
      ExpertWeights{"mlp.experts.down.weight", hidden, inner, 1, deep_std()}(g, ep, count, false);
  const std::int64_t wide = blocks * inner;
  const ValueId biases = moe.linear_bias ? expert_biases(g, ep, count, wide + hidden) : no_value;
  ValueId rows =
      ops::permute_rows(g, x, places, taken, moe.scale_inputs ? routes.weights : no_value);
  if (ep.size > 1) {
    rows = ops::remote_experts(
        g, rows, places.offsets, up, down,
        {ep.group(), ep.tensor_size, rule, round_rows(moe, ep, local_rows_), dispatch.blocks},
        biases);
  } else {
    const auto grouped = [&](ValueId from, ValueId weight, std::int64_t first_bias) {
      return ops::grouped_linear(g, from, weight, places.offsets, dispatch.blocks,
                                 {biases, first_bias, wide + hidden});
    };
    rows = grouped(ops::activation(g, grouped(rows, up, 0), rule), down, wide);
  }
  return moe.scale_inputs ? ops::unpermute_rows(g, rows, places)
                          : ops::combine(g, rows, routes, places);
}

ValueId Builder::shared_expert(Graph& g, ValueId x) const {
  const std::int64_t hidden = m_.hidden_size, inner = m_.moe.shared_ffn_hidden_size;
  const ActivationRule rule = activation_rule();
  const int blocks = is_gated(rule.kind) ? 2 : 1;
  const ValueId up =
      ColumnLinear{"mlp.shared.up", hidden, blocks * inner, false, hidden_std(), blocks}(g, tp_, x);
  const ValueId all = RowLinear{"mlp.shared.down", inner, hidden, false, deep_std()}(
      g, tp_, ops::activation(g, up, rule));
  if (!m_.moe.shared_gate) return all;
  return ops::gate_rows(g, all, ops::router(g, x, row_weight(g, "mlp.shared.gate.weight", 1)));
}

ValueId Builder::experts(Graph& g, ValueId x, std::int64_t count) const {
  const ValueId chosen = chosen_experts(g, x, count);
  if (m_.moe.shared_ffn_hidden_size == 0) return chosen;
  const ValueId shared = shared_expert(g, x);
  if (!m_.moe.residual) return ops::add(g, chosen, shared, no_value, {}, seq_);
  const ValueId weight = row_weight(g, "mlp.mix.weight", 2);
  const ValueId shift = for_own_rows(g, {"mlp.mix.bias", {2}, {2}, Init::zeros, 0, false});
  return ops::mix_rows(g, chosen, shared, ops::linear(g, x, weight, shift, {.may_round = false}));
}

}  // namespace trireme
