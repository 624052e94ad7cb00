// The optimisers: their names and what each keeps and needs. An entry here and the rule NAME_rule
// in optim/ make an optimiser.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Name in optimizer.name and of the rule, moments per parameter, whether it updates whole matrices
// (and the other parameters by AdamW), and whether its kernels exist for GPUs.
// clang-format off
#define TRIREME_OPTIMIZERS(X)      \
  X(adamw, 2, false, true)         \
  X(adam,  2, false, true)         \
  X(sgd,   1, false, true)         \
  X(lion,  1, false, false)        \
  X(muon,  1, true,  false)
// clang-format on

struct OptimizerEntry {
  std::string_view name;
  int moments;
  bool whole_matrices;
  bool on_gpus;
};

std::span<const OptimizerEntry> all_optimizers();
// Null where there is none of that name.
const OptimizerEntry* find_optimizer(std::string_view name);
std::vector<std::string> optimizer_names();

}  // namespace trireme
