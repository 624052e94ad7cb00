// SGD with momentum.
#include "optim/rules.h"

namespace trireme {
namespace {

void update_by_sgd(Device& device, DType compute, const OptimizerConfig& config,
                   const UpdateRange& range) {
  with_compute_type(compute, [&]<class T>(T) {
    using A = Acc<T>;
    const SgdStep step{range.block, config.momentum, range.decay, range.lr_ratio};
    device.kernels<T>().sgd(
        device.queue(), step, static_cast<A*>(range.master), static_cast<A*>(range.moments[0]),
        static_cast<const A*>(range.gradient), static_cast<T*>(range.copy), range.count);
  });
}

}  // namespace

extern const UpdateRule sgd_rule;
const UpdateRule sgd_rule{.update = update_by_sgd};

}  // namespace trireme
