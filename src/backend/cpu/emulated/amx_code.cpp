// Emulation of AMX, for programs that link it: tests run the kernels and the tile code of
// Isa::amx on any processor.
#include "backend/cpu/amx_code.h"

#include "backend/cpu/emulated/tiles.h"
#include "base/error.h"

namespace trireme::cpu {

namespace amx_emulated {

template <class T>
const Kernels<T>& table();
template <class T>
void few_rows(const FewRows<T>& product, std::int64_t first, std::int64_t end);

void misused(const char* what) {
  fail("the emulation of AMX met {}", what);
}

}  // namespace amx_emulated

const AmxCode* emulated_amx() {
  static constexpr AmxCode code = TRIREME_AMX_CODE(amx_emulated, amx_emulated);
  return &code;
}

}  // namespace trireme::cpu
