// Lion (Chen et al. 2023): steps by the sign of a moment.
#include "optim/rules.h"

namespace trireme {
namespace {

void update_by_lion(Device& device, DType compute, const OptimizerConfig& config,
                    const UpdateRange& range) {
  with_compute_type(compute, [&]<class T>(T) {
    using A = Acc<T>;
    const LionStep step{range.block, config.lion_beta1, config.lion_beta2, range.decay,
                        range.lr_ratio};
    device.kernels<T>().lion(
        device.queue(), step, static_cast<A*>(range.master), static_cast<A*>(range.moments[0]),
        static_cast<const A*>(range.gradient), static_cast<T*>(range.copy), range.count);
  });
}

}  // namespace

extern const UpdateRule lion_rule;
const UpdateRule lion_rule{.update = update_by_lion};

}  // namespace trireme
