// Alternate stack for signal handlers.
#pragma once

namespace trireme {

// Gives the calling thread an alternate stack for handlers installed with SA_ONSTACK. Every compute
// thread needs it: within oneDNN's sgemm the stack pointer may point into the heap, where a handler
// would overwrite live data (the saved registers alone take 11 KiB with AMX).
void use_signal_stack();

}  // namespace trireme
