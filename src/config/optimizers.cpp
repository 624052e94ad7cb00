// The table of optimizers.
#include "config/optimizers.h"

namespace trireme {
namespace {

#define TRIREME_OPTIMIZER_ENTRY(name, moments, whole_matrices) {#name, moments, whole_matrices},
constexpr OptimizerEntry kOptimizers[] = {TRIREME_OPTIMIZERS(TRIREME_OPTIMIZER_ENTRY)};
#undef TRIREME_OPTIMIZER_ENTRY

}  // namespace

std::span<const OptimizerEntry> all_optimizers() {
  return kOptimizers;
}

const OptimizerEntry* find_optimizer(std::string_view name) {
  for (const OptimizerEntry& entry : kOptimizers)
    if (entry.name == name) return &entry;
  return nullptr;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerEntry& entry : kOptimizers) names.emplace_back(entry.name);
  return names;
}

}  // namespace trireme
