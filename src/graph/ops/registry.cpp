// The table of all ops, in the order of OpKind.
#include "graph/ops/definitions.h"

namespace trireme {

const OpDefinition& definition(OpKind op) {
#define TRIREME_OP(name) &ops::name##_op,
  static constexpr const OpDefinition* table[] = {TRIREME_OPS(TRIREME_OP)};
#undef TRIREME_OP
  TRIREME_CHECK(op < OpKind::count);
  return *table[static_cast<std::size_t>(op)];
}

}  // namespace trireme
