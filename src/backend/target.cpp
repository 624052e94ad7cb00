// Names of targets.
#include "backend/target.h"

namespace trireme {

const char* name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::hip:
      return "hip";
    case DeviceKind::emulated:
      return "emulated";
  }
  return "?";
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
