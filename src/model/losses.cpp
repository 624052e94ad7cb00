// Sums the losses that passes have left in a slot.
#include "model/losses.h"

#include "backend/device.h"
#include "base/error.h"
#include "config/families.h"
#include "model/builder.h"

namespace trireme {
std::span<const Loss> losses_of(const ModelConfig& model) {
  const std::span<const Loss> losses = architecture_of(model).losses(model);
  TRIREME_CHECK(losses.size() <= most_losses && losses[0].unit == LossUnit::token);
  return losses;
}

std::span<const Loss> evaluated_losses(const ModelConfig& model) {
  return losses_of(model).first(losses_of(model).size() - model.mtp_layers);
}

void add_losses(const Stage& stage, int slot, const ModelConfig& model, bool trained,
                StepTotals* totals) {
  const std::span<const Loss> losses = trained ? losses_of(model) : evaluated_losses(model);
  Device& device = stage.device();
  with_accumulation_type(stage.definition().accumulate(), [&]<class A>(A) {
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const bool weighted = losses[i].unit != LossUnit::sample;
      const std::int64_t count =
          weighted ? stage.batch_bytes(BatchInput::loss_weights) / 4 / (1 + model.mtp_layers)
                   : stage.result_bytes(losses[i].result) / std::int64_t{sizeof(A)};
      // Losses of further tokens follow those of the next one.
      const std::int64_t first = weighted ? static_cast<std::int64_t>(i) * count : 0;
      const auto* values = static_cast<const A*>(stage.result(slot, losses[i].result)) + first;
      const auto* all_weights =
          static_cast<const float*>(stage.batch(slot, BatchInput::loss_weights));
      const float* const weights = weighted ? all_weights + first : nullptr;
      const std::int64_t exact = stage.definition().exact_block, block = exact > 0 ? exact : count;
      for (std::int64_t at = 0; at < count; at += block) {
        device.kernels<A>().add_losses(device.queue(), &totals->losses[i].sum,
                                       &totals->losses[i].count, values + at,
                                       weights ? weights + at : nullptr, block);
      }
    }
  });
}

}  // namespace trireme
