// Optimizers: names, states and requirements. An entry here and a rule NAME_rule in optim/ define
// an optimizer.
#pragma once

#include "base/choice.h"

namespace trireme {

// Columns: kind and rule, name in optimizer.name, moments per parameter, and whether it updates
// whole matrices (with AdamW for the other parameters).
// clang-format off
#define TRIREME_OPTIMIZERS(X) \
  X(adamw, "adamw", 2, false) \
  X(adam,  "adam",  2, false) \
  X(sgd,   "sgd",   1, false) \
  X(lion,  "lion",  1, false) \
  X(muon,  "muon",  1, true)
// clang-format on
TRIREME_CHOICE(OptimizerKind, TRIREME_OPTIMIZERS)

struct OptimizerEntry {
  OptimizerKind kind;
  int moments;
  bool whole_matrices;
};

const OptimizerEntry& entry_of(OptimizerKind kind);
// Whether it is AdamW or Adam, whose states are interchangeable.
constexpr bool is_adam(OptimizerKind kind) {
  return kind == OptimizerKind::adamw || kind == OptimizerKind::adam;
}

}  // namespace trireme
