// Muon (Jordan et al. 2024): momentum whose matrices are made orthogonal by Newton-Schulz
// iterations; AdamW for everything else.
#include "optim/newton_schulz.h"
#include "optim/rules.h"

namespace trireme {
namespace {

void direct(Device& device, DType compute, const OptimizerConfig& config,
            const UpdateRange& range) {
  with_compute_type(compute, [&]<class T>(T) {
    using A = Acc<T>;
    const MomentumStep step{range.block, config.muon_momentum, config.muon_nesterov};
    device.kernels<T>().momentum(device.queue(), step, static_cast<A*>(range.moments[0]),
                                 static_cast<A*>(range.gradient), range.count);
  });
}

void update_by_muon(Device& device, DType compute, const OptimizerConfig& config,
                    const UpdateRange& range) {
  with_compute_type(compute, [&]<class T>(T) {
    using A = Acc<T>;
    const double lr_ratio = config.muon_lr > 0 ? config.muon_lr / config.lr : 1;
    const DirectionStep step{range.block, lr_ratio, range.decay};
    device.kernels<T>().apply_direction(device.queue(), step, static_cast<A*>(range.master),
                                        static_cast<const A*>(range.gradient),
                                        static_cast<T*>(range.copy), range.count);
  });
}

std::unique_ptr<MatrixStep> matrix_step(Device& device, DType compute,
                                        const OptimizerConfig& config) {
  return std::make_unique<NewtonSchulz>(device, compute, config);
}

}  // namespace

extern const UpdateRule muon_rule;
const UpdateRule muon_rule{.update = update_by_muon,
                           .direct = direct,
                           .matrix_step = matrix_step,
                           .rest = OptimizerKind::adamw};

}  // namespace trireme
