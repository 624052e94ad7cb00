// Names of targets, as in run.device.
#include "backend/target.h"

#include <cstddef>

namespace trireme {

const char* name_of(DeviceKind kind) {
#define TRIREME_DEVICE_NAME(value, name) name,
  static constexpr const char* names[] = {TRIREME_DEVICES(TRIREME_DEVICE_NAME)};
#undef TRIREME_DEVICE_NAME
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace trireme

namespace trireme::cpu {

const char* name_of(Isa set) {
  switch (set) {
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::amx:
      return "amx";
  }
  return "?";
}

}  // namespace trireme::cpu
