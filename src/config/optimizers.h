// The optimizers: their names and what each keeps and needs. An entry here and the rule NAME_rule
// in optim/ make an optimizer.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Name in optimizer.name and of the rule, moments per parameter, and whether it updates whole
// matrices (and the other parameters by AdamW).
// clang-format off
#define TRIREME_OPTIMIZERS(X) \
  X(adamw, 2, false)          \
  X(adam,  2, false)          \
  X(sgd,   1, false)          \
  X(lion,  1, false)          \
  X(muon,  1, true)
// clang-format on

struct OptimizerEntry {
  std::string_view name;
  int moments;
  bool whole_matrices;
};

std::span<const OptimizerEntry> all_optimizers();
// Null if there is none of that name.
const OptimizerEntry* find_optimizer(std::string_view name);
std::vector<std::string> optimizer_names();

}  // namespace trireme
