// The table of optimizers.
#include "config/optimizers.h"

namespace trireme {
namespace {

#define TRIREME_OPTIMIZER_ENTRY(kind, name, moments, whole_matrices) \
  {OptimizerKind::kind, moments, whole_matrices},
constexpr OptimizerEntry kOptimizers[] = {TRIREME_OPTIMIZERS(TRIREME_OPTIMIZER_ENTRY)};
#undef TRIREME_OPTIMIZER_ENTRY

}  // namespace

const OptimizerEntry& entry_of(OptimizerKind kind) {
  return kOptimizers[static_cast<std::size_t>(kind)];
}

}  // namespace trireme
