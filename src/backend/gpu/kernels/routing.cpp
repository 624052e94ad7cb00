// Selection of experts and its gradient, with the router losses. One block per row: a row's results
// depend on that row only.
#include "backend/gpu/kernels/choice_counts.h"
#include "backend/gpu/kernels/exact_terms.h"
#include "backend/gpu/kernels/routed_row.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

template <class T>
GPU_KERNEL(routing_threads)
route_kernel(const RouterShape s, float* weights, std::int32_t* chosen, const float* logits,
             const T* bias) {
  const std::int64_t row = block_index().x, at = row * s.top_k;
  RoutedRow r(s, logits + row * s.experts);
  r.make_scores();
  if (bias) {
    r.for_experts([&](int e) { r.value(e) = r.score(e) + to_float(bias[e]); });
    sync_block();
  }
  r.choose(true, bias);
  r.for_choices([&](int j) {
    chosen[at + j] = r.chosen(j);
    weights[at + j] = r.weight(j);
  });
}

template <class T>
void route(Queue& queue, const RouterShape& shape, float* weights, std::int32_t* chosen,
           const float* logits, const T* bias) {
  launch(queue, over_rows(shape), route_kernel<T>, shape, weights, chosen, logits, bias);
}

// --- gradient; with an auxiliary loss, the units' choices are counted before ---

template <class T>
struct RouteGrad {
  float* dlogits;
  const float *dweights, *logits;
  const std::int32_t* chosen;
  const std::int64_t* counts;  // [units, experts]; null without an auxiliary loss of units
  const T* load;               // [experts], over its mean: replaces counts if not null
  const StepBlock* block;
  double aux_coeff, z_coeff, loss_rows, sequences;  // per unit
  std::int64_t unit_rows, first_row;
};

// Converts the gradient of the weights to that of the logits, in each expert's value.
GPU_FN void weights_grad(const RouterShape& s, RoutedRow& r, const float* dweights) {
  const auto scaling = static_cast<float>(s.scaling);
  const bool by_logits = s.normalize && !s.sigmoid;
  float dot = 0;
  if (by_logits || !s.sigmoid || (s.normalize && s.top_k > 1)) {
    for (int j = 0; j < s.top_k; ++j)
      dot += (by_logits ? r.share_of_logits(j) : r.score(r.chosen(j))) * dweights[j];
  }
  const bool reaches_all = !s.sigmoid && !by_logits;  // through the sum of the softmax
  r.for_experts([&](int e) { r.value(e) = reaches_all ? -scaling * r.score(e) * dot : 0.0f; });
  sync_block();
  r.for_choices([&](int j) {
    const int e = r.chosen(j);
    const float score = r.score(e), dweight = dweights[j];
    if (by_logits) {
      r.value(e) = r.weight(j) * (dweight - dot);
    } else if (reaches_all) {
      r.value(e) += scaling * score * dweight;
    } else {
      const float divisor = r.divisor();
      const float through = s.normalize && s.top_k > 1 ? dot / divisor : 0.0f;
      r.value(e) = scaling * (dweight - through) / divisor * score * (1 - score);
    }
  });
  sync_block();
}

// Adds the gradient of the auxiliary loss; returns the row's contribution to that loss,
// without the coefficients.
template <class T>
GPU_FN double add_aux_grad(const RouterShape& s, const RouteGrad<T>& g, RoutedRow& r,
                           std::int64_t row, double scale) {
  const double factor = scale * g.aux_coeff * static_cast<double>(s.experts) / g.loss_rows;
  double total = 1, share = 0;
  if (s.sigmoid) {
    total = 0;
    r.for_experts([&](int e) { total += static_cast<double>(r.score(e)); });
    total = block_sum<routing_threads>(total);
  }
  // Expert's share of the choices that the loss considers.
  const std::int64_t* const counts =
      g.load ? nullptr : g.counts + (g.first_row + row) / g.unit_rows * s.experts;
  const double choices = static_cast<double>(s.top_k) * g.loss_rows;
  const auto frequency = [&](int e) {
    return g.load ? static_cast<double>(to_float(g.load[e])) / static_cast<double>(s.experts)
                  : static_cast<double>(counts[e]) / choices;
  };
  r.for_experts([&](int e) { share += frequency(e) * static_cast<double>(r.score(e)) / total; });
  share = block_sum<routing_threads>(share);
  r.for_experts([&](int e) {
    const auto score = static_cast<double>(r.score(e));
    const double dp = factor * (frequency(e) - share);
    r.value(e) += static_cast<float>(s.sigmoid ? dp / total * score * (1 - score) : dp * score);
  });
  return share;
}

// Same for the z-loss.
template <class T>
GPU_FN double add_z_grad(const RouteGrad<T>& g, RoutedRow& r, double scale) {
  const SoftmaxStats stats = r.softmax();
  const float lse = stats.largest + log(stats.sum);
  const float factor = static_cast<float>(scale * g.z_coeff * 2 / g.loss_rows) * lse;
  r.for_experts(
      [&](int e) { r.value(e) += factor * (exp(r.logit(e) - stats.largest) / stats.sum); });
  return static_cast<double>(lse) * static_cast<double>(lse);
}

template <class T>
GPU_KERNEL(routing_threads)
route_grad_kernel(const RouterShape s, const RouteGrad<T> g) {
  const std::int64_t row = block_index().x;
  RoutedRow r(s, g.logits + row * s.experts);
  r.make_scores();
  r.set_chosen(g.chosen + row * s.top_k);
  weights_grad(s, r, g.dweights + row * s.top_k);
  const double scale = g.block->sample_scale * g.sequences, weight = g.sequences / g.loss_rows;
  double aux = 0, z = 0;
  if (g.aux_coeff > 0) aux = add_aux_grad(s, g, r, row, scale);
  if (g.z_coeff > 0) z = add_z_grad(g, r, scale);
  r.for_experts([&](int e) { g.dlogits[row * s.experts + e] = r.value(e); });
  ExpertTotals* const totals = g.block->experts;
  if (!totals || thread_index() != 0) return;
  add_term(reinterpret_cast<std::int64_t*>(&totals->aux_loss),
           g.aux_coeff * static_cast<double>(s.experts) * weight * aux);
  add_term(reinterpret_cast<std::int64_t*>(&totals->z_loss), g.z_coeff * weight * z);
}

template <class T>
void route_grad(Queue& queue, const RouterShape& s, const RouterLosses& losses,
                const RouteGradOperands<T>& o) {
  // The gradient is not written yet: its memory has room for one number per expert.
  auto* const scratch = reinterpret_cast<std::int32_t*>(o.dlogits);
  count_kept(queue, s, scratch, o.dbias, o.accumulate, o.chosen, o.places, o.block, o.layer);
  if (o.dload) {
    const bool plain = s.groups == 1 && !o.dbias;
    count_load(queue, s, scratch, o.dload, o.accumulate, plain, o.logits, o.chosen, o.block);
  }
  launch(queue, over_rows(s), route_grad_kernel<T>, s,
         RouteGrad<T>{o.dlogits, o.dweights, o.logits, o.chosen, o.counts, o.load, o.block,
                      losses.aux_coeff, losses.z_coeff, losses.rows(),
                      static_cast<double>(losses.unit_rows) / static_cast<double>(losses.seq),
                      losses.unit_rows, losses.first_row});
}

}  // namespace

template <class T>
void set_routing(Kernels<T>& table) {
  table.route = route<T>;
  table.route_grad = route_grad<T>;
}
TRIREME_GPU_INSTANTIATE(set_routing);

}  // namespace trireme::gpu
