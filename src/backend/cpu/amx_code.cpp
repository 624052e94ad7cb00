// Selects between the processor's AMX and its emulation.
#include "backend/cpu/amx_code.h"

#include "backend/cpu/isa.h"

namespace trireme::cpu {

namespace avx512 {
template <class T>
const Kernels<T>& table();
}
namespace amx {
template <class T>
const Kernels<T>& table();
}

__attribute__((weak)) const AmxCode* emulated_amx() {
  return nullptr;
}

const AmxCode& processors_amx() {
  static constexpr AmxCode code = TRIREME_AMX_CODE(amx, avx512);
  return code;
}

const AmxCode& amx_code() {
  static const AmxCode& chosen = emulates_amx() ? *emulated_amx() : processors_amx();
  return chosen;
}

}  // namespace trireme::cpu
