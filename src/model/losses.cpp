// Sums of the elements that a slot's passes have left.
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

void add_losses(const Stage& stage, int slot, std::span<const Loss> losses, StepTotals* totals) {
  Device& device = stage.device();
  with_accumulation_type(stage.definition().accumulate(), [&]<class A>(A) {
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const bool weighted = losses[i].unit == LossUnit::token;
      const std::int64_t count =
          weighted ? stage.batch_bytes(BatchInput::loss_weights) / 4
                   : stage.result_bytes(losses[i].result) / std::int64_t{sizeof(A)};
      const void* weights = weighted ? stage.batch(slot, BatchInput::loss_weights) : nullptr;
      device.kernels<A>().add_losses(device.queue(), &totals->losses[i].sum,
                                     &totals->losses[i].count,
                                     static_cast<const A*>(stage.result(slot, losses[i].result)),
                                     static_cast<const float*>(weights), count);
    }
  });
}

}  // namespace trireme
