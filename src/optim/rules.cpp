// The table of rules: one for each name in config/optimizers.h.
#include "optim/rules.h"

#include "base/error.h"

namespace trireme {

#define TRIREME_DECLARE_RULE(name, ...) extern const UpdateRule name##_rule;
TRIREME_OPTIMIZERS(TRIREME_DECLARE_RULE)
#undef TRIREME_DECLARE_RULE

const UpdateRule& rule_of(const OptimizerEntry& entry) {
#define TRIREME_RETURN_RULE(rule, ...) \
  if (entry.name == #rule) return rule##_rule;
  TRIREME_OPTIMIZERS(TRIREME_RETURN_RULE)
#undef TRIREME_RETURN_RULE
  fail("internal error: no rule for the optimizer {}", entry.name);
}

}  // namespace trireme
