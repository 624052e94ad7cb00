// The choice of experts and its gradient, with the losses of a router. One block for each row: what
// becomes of a row depends on that row alone, and counts are integers.
#include "backend/gpu/kernels/exact_terms.h"
#include "backend/gpu/kernels/routed_row.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

Launch over_rows(const RouterShape& s) {
  Launch size = one_block_each(s.rows, routing_threads);
  size.shared_bytes = RoutedRow::shared_bytes(s);
  return size;
}

template <class T>
GPU_KERNEL(routing_threads)
route_kernel(const RouterShape s, float* weights, std::int32_t* chosen, const float* logits,
             const T* bias) {
  const std::int64_t row = block_index().x, at = row * s.top_k;
  RoutedRow r(s, logits + row * s.experts);
  r.make_scores();
  if (bias) {
    r.for_experts([&](int e) { r.value(e) += to_float(bias[e]); });
    sync_block();
  }
  r.choose(true);
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

// --- choices by plain score ---

GPU_KERNEL(256)
count_chosen_kernel(const RouterShape s, std::int64_t unit_rows, std::int64_t first_row,
                    std::int64_t* counts, const std::int32_t* chosen) {
  for_each(s.rows * s.top_k, [=](std::int64_t i) {
    const std::int64_t unit = (first_row + i / s.top_k) / unit_rows;
    atomic_add(counts + unit * s.experts + chosen[i], std::int64_t{1});
  });
}

GPU_KERNEL(routing_threads)
count_plain_kernel(const RouterShape s, std::int64_t unit_rows, std::int64_t first_row,
                   std::int64_t* counts, const float* logits) {
  const std::int64_t row = block_index().x, unit = (first_row + row) / unit_rows;
  RoutedRow r(s, logits + row * s.experts);
  r.make_scores();
  r.choose(false);
  r.for_choices(
      [&](int j) { atomic_add(counts + unit * s.experts + r.chosen(j), std::int64_t{1}); });
}

void unit_choices(Queue& queue, const RouterShape& s, const RouterLosses& losses,
                  std::int64_t units, bool plain, std::int64_t* counts, const float* logits,
                  const std::int32_t* chosen) {
  queue.fill(counts, 0, units * s.experts * static_cast<std::int64_t>(sizeof *counts));
  if (plain) {
    launch(queue, over(s.rows * s.top_k), count_chosen_kernel, s, losses.unit_rows,
           losses.first_row, counts, chosen);
  } else {
    launch(queue, over_rows(s), count_plain_kernel, s, losses.unit_rows, losses.first_row, counts,
           logits);
  }
}

// --- the gradient; choices of units are counted before, where there is an auxiliary loss ---

struct RouteGrad {
  float* dlogits;
  const float *dweights, *logits;
  const std::int32_t* chosen;
  const std::int64_t* counts;  // [units, experts]; null without an auxiliary loss
  const StepBlock* block;
  double aux_coeff, z_coeff, loss_rows, sequences;  // of a unit
  std::int64_t unit_rows, first_row;
};

// From the gradient of the weights to the value of each expert: that of its logit.
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

// Adds the gradient of the auxiliary loss; returns what the row adds to that loss, as far as it
// does not depend on coefficients.
GPU_FN double add_aux_grad(const RouterShape& s, const RouteGrad& g, RoutedRow& r,
                           const std::int64_t* counts, double scale) {
  const double factor = scale * g.aux_coeff * static_cast<double>(s.experts) / g.loss_rows;
  const double choices = static_cast<double>(s.top_k) * g.loss_rows;
  double total = 1, share = 0;
  if (s.sigmoid) {
    total = 0;
    r.for_experts([&](int e) { total += static_cast<double>(r.score(e)); });
    total = block_sum<routing_threads>(total);
  }
  const auto frequency = [&](int e) { return static_cast<double>(counts[e]) / choices; };
  r.for_experts([&](int e) { share += frequency(e) * static_cast<double>(r.score(e)) / total; });
  share = block_sum<routing_threads>(share);
  r.for_experts([&](int e) {
    const auto score = static_cast<double>(r.score(e));
    const double dp = factor * (frequency(e) - share);
    r.value(e) += static_cast<float>(s.sigmoid ? dp / total * score * (1 - score) : dp * score);
  });
  return share;
}

// Likewise of the z-loss.
GPU_FN double add_z_grad(const RouteGrad& g, RoutedRow& r, double scale) {
  const SoftmaxStats stats = r.softmax();
  const float lse = stats.largest + log(stats.sum);
  const float factor = static_cast<float>(scale * g.z_coeff * 2 / g.loss_rows) * lse;
  r.for_experts(
      [&](int e) { r.value(e) += factor * (exp(r.logit(e) - stats.largest) / stats.sum); });
  return static_cast<double>(lse) * static_cast<double>(lse);
}

GPU_KERNEL(routing_threads)
route_grad_kernel(const RouterShape s, const RouteGrad g) {
  const std::int64_t row = block_index().x;
  RoutedRow r(s, g.logits + row * s.experts);
  r.make_scores();
  r.set_chosen(g.chosen + row * s.top_k);
  weights_grad(s, r, g.dweights + row * s.top_k);
  const double scale = g.block->sample_scale * g.sequences, weight = g.sequences / g.loss_rows;
  double aux = 0, z = 0;
  if (g.aux_coeff > 0) {
    const std::int64_t unit = (g.first_row + row) / g.unit_rows;
    aux = add_aux_grad(s, g, r, g.counts + unit * s.experts, scale);
  }
  if (g.z_coeff > 0) z = add_z_grad(g, r, scale);
  r.for_experts([&](int e) { g.dlogits[row * s.experts + e] = r.value(e); });
  ExpertTotals* const totals = g.block->experts;
  if (!totals || thread_index() != 0) return;
  add_term(reinterpret_cast<std::int64_t*>(&totals->aux_loss),
           g.aux_coeff * static_cast<double>(s.experts) * weight * aux);
  add_term(reinterpret_cast<std::int64_t*>(&totals->z_loss), g.z_coeff * weight * z);
}

// How many choices each expert kept, and last how many were dropped. One block, because sums come
// from it in floating point too.
GPU_KERNEL(256)
count_kept_kernel(const RouterShape s, float* dbias, bool accumulate, const std::int32_t* chosen,
                  const std::int32_t* places, const StepBlock* block, std::int32_t layer) {
  ExpertTotals* const totals = block->experts;
  if (!totals && !dbias) return;
  auto* const counts = dynamic_shared_memory<std::int32_t>();
  const auto thread = static_cast<int>(thread_index());
  for (int e = thread; e <= s.experts; e += 256) counts[e] = 0;
  sync_block();
  for (std::int64_t i = thread; i < s.rows * s.top_k; i += 256)
    atomic_add(counts + (places[i] < 0 ? s.experts : chosen[i]), 1);
  sync_block();
  std::int64_t* const kept =
      totals ? reinterpret_cast<std::int64_t*>(totals + 1) + layer * (s.experts + 1) : nullptr;
  const double unit = choice_unit * block->loss_scale;
  for (int e = thread; e <= s.experts; e += 256) {
    if (kept) kept[e] += counts[e];
    if (!dbias || e == s.experts) continue;
    const auto count = static_cast<float>(static_cast<double>(counts[e]) * unit);
    dbias[e] = accumulate ? dbias[e] + count : count;
  }
}

// Without a load of the step before, which configurations for GPUs cannot ask for.
template <class T>
void route_grad(Queue& queue, const RouterShape& s, const RouterLosses& losses, float* dlogits,
                float* dbias, float* /*dload*/, bool accumulate, const float* dweights,
                const float* logits, const std::int32_t* chosen, const std::int32_t* places,
                const std::int64_t* counts, const T* /*load*/, const StepBlock* block,
                std::int32_t layer) {
  launch(queue, over_rows(s), route_grad_kernel, s,
         RouteGrad{dlogits, dweights, logits, chosen, counts, block, losses.aux_coeff,
                   losses.z_coeff, losses.rows(),
                   static_cast<double>(losses.unit_rows) / static_cast<double>(losses.seq),
                   losses.unit_rows, losses.first_row});
  Launch counting = one_block_each(1, 256);
  counting.shared_bytes = static_cast<std::size_t>(s.experts + 1) * sizeof(std::int32_t);
  launch(queue, counting, count_kept_kernel, s, dbias, accumulate, chosen, places, block, layer);
}

// --- the bias ---

template <class T>
GPU_KERNEL(256)
balance_kernel(float* master, T* compute, const float* choices, double rate, std::int64_t experts) {
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e) sum += static_cast<double>(choices[e]);
  for_each(experts, [=](std::int64_t e) {
    // Without the division of a mean, so that equal loads are equal.
    const double missing = sum - static_cast<double>(choices[e]) * static_cast<double>(experts);
    if (missing != 0) master[e] += static_cast<float>(missing > 0 ? rate : -rate);
    if (compute) compute[e] = from_float<T>(master[e]);
  });
}

template <class T>
void balance(Queue& queue, float* master, T* compute, const float* choices, double rate,
             std::int64_t experts) {
  launch(queue, over(experts), balance_kernel<T>, master, compute, choices, rate, experts);
}

}  // namespace

template <class T>
void set_routing(Kernels<T>& table) {
  table.route = route<T>;
  table.route_grad = route_grad<T>;
  table.unit_choices = unit_choices;
  table.balance = balance<T>;
}
TRIREME_GPU_INSTANTIATE(set_routing);

}  // namespace trireme::gpu
