// Faults of machines that tests plant in the emulated GPU, named by TRIREME_EMULATED_FAULT.
#pragma once

namespace trireme::gpu::emulated {

enum class Fault {
  no_driver,      // "no driver"
  heat,           // "heat": the first GPU says that it is slowed down
  slow_link,      // "slow link": from GPU 2 to GPU 5
  wrong_results,  // "wrong results": a bit flips on the way to the host
  stuck_joining,  // "stuck joining": the last rank of a group stops within the library's start
  large,          // "large": it says that its matrix units are fast
  no_kernels,     // "no kernels": it is of an architecture that the build knows nothing of
  wrong_library,  // "wrong library": the substitute doubles gradients of weights in bf16 and fp8
};

bool planted(Fault);

}  // namespace trireme::gpu::emulated
