// A stack of its own for signal handlers.
#pragma once

namespace trireme {

// Makes handlers with SA_ONSTACK that interrupt this thread run on a stack of their own. Every
// thread that computes needs it: within oneDNN's sgemm the stack pointer may point into the heap,
// and a handler there writes over what lies below (the saved registers alone are 11 KiB with AMX).
void use_signal_stack();

}  // namespace trireme
