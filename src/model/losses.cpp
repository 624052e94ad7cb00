// Sums of the elements that a slot's passes have left.
#include "model/losses.h"

#include "base/error.h"
#include "config/families.h"
#include "model/builder.h"

namespace trireme {
namespace {

template <class T>
void add(const T* losses, const float* weights, std::int64_t count, LossSum::Part& part) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (weights && weights[i] == 0) continue;
    const double weight = weights ? weights[i] : 1;
    part.sum += weight * static_cast<double>(losses[i]);
    part.count += weight;
  }
}

}  // namespace

std::span<const Loss> losses_of(const ModelConfig& model) {
  const std::span<const Loss> losses = architecture_of(model).losses(model);
  TRIREME_CHECK(losses.size() <= LossSum::most_losses && losses[0].unit == LossUnit::token);
  return losses;
}

void add_losses(const Stage& stage, int slot, std::span<const Loss> losses, LossSum& sum) {
  const bool wide = stage.definition().accumulate() == DType::f64;
  const std::int64_t element = wide ? sizeof(double) : sizeof(float);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const void* values = stage.result(slot, losses[i].result);
    const bool weighted = losses[i].unit == LossUnit::token;
    const std::int64_t count = weighted ? stage.batch_bytes(BatchInput::loss_weights) / 4
                                        : stage.result_bytes(losses[i].result) / element;
    const auto* weights =
        weighted ? static_cast<const float*>(stage.batch(slot, BatchInput::loss_weights)) : nullptr;
    if (wide) {
      add(static_cast<const double*>(values), weights, count, sum.parts[i]);
    } else {
      add(static_cast<const float*>(values), weights, count, sum.parts[i]);
    }
  }
}

}  // namespace trireme
