// The definitions of all ops, each in the file of its op.
#pragma once

#include "graph/op.h"

namespace trireme::ops {

#define TRIREME_OP(name) extern const OpDefinition name##_op;
TRIREME_OPS(TRIREME_OP)
#undef TRIREME_OP

}  // namespace trireme::ops
