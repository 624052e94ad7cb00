// Hardware faults that tests inject into the emulated GPU, named by TRIREME_EMULATED_FAULT.
#pragma once

namespace trireme::gpu::emulated {

enum class Fault {
  no_driver,      // "no driver"
  heat,           // "heat": the first GPU reports throttling
  slow_link,      // "slow link": from GPU 2 to GPU 5
  wrong_results,  // "wrong results": a bit flips on the way to the host
  stuck_joining,  // "stuck joining": a group's last rank hangs in the library's init
  large,          // "large": reports fast matrix units
  no_kernels,     // "no kernels": its architecture is unknown to the build
  wrong_library,  // "wrong library": the substitute doubles gradients of weights in bf16 and fp8
};

bool planted(Fault);

}  // namespace trireme::gpu::emulated
