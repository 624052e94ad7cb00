// The table of update rules: one for each name in config/optimizers.h.
#include "optim/rules.h"

#include "base/error.h"

namespace trireme {

#define TRIREME_DECLARE_RULE(name, ...) extern const UpdateRule name##_rule;
TRIREME_OPTIMIZERS(TRIREME_DECLARE_RULE)
#undef TRIREME_DECLARE_RULE

const UpdateRule& rule_of(OptimizerKind kind) {
  switch (kind) {
#define TRIREME_RETURN_RULE(kind, ...) \
  case OptimizerKind::kind:            \
    return kind##_rule;
    TRIREME_OPTIMIZERS(TRIREME_RETURN_RULE)
#undef TRIREME_RETURN_RULE
  }
  fail("internal error: no rule for the optimizer {}", kind);
}

}  // namespace trireme
