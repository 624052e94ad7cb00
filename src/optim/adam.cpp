// Adam (Kingma, Ba 2014) and AdamW (Loshchilov, Hutter 2017).
#include "optim/rules.h"

namespace trireme {
namespace {

template <bool decoupled>
void update_by_adam(Device& device, DType compute, const OptimizerConfig& config,
                    const UpdateRange& range) {
  with_compute_type(compute, [&]<class T>(T) {
    using A = Acc<T>;
    const AdamStep step{.block = range.block,
                        .beta1 = config.beta1,
                        .beta2 = config.beta2,
                        .eps = config.eps * range.eps_ratio,
                        .weight_decay = range.decay,
                        .decoupled = decoupled,
                        .lr_ratio = range.lr_ratio};
    device.kernels<T>().adam(device.queue(), step, static_cast<A*>(range.master),
                             static_cast<A*>(range.moments[0]), static_cast<A*>(range.moments[1]),
                             static_cast<const A*>(range.gradient), static_cast<T*>(range.copy),
                             range.count);
  });
}

}  // namespace

extern const UpdateRule adamw_rule, adam_rule;
const UpdateRule adamw_rule{.update = update_by_adam<true>};
const UpdateRule adam_rule{.update = update_by_adam<false>};

}  // namespace trireme
