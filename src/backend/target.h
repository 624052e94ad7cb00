// Properties of the compute device that planning depends on, such as sizes of scratch.
#pragma once

#include <cstdint>

#include "base/kinds.h"

namespace trireme {

namespace cpu {
// Instruction sets for which the CPU's kernels are built.
enum class Isa : std::uint8_t { avx2, avx512, amx };
// "avx2", "avx512", "amx"
const char* name_of(Isa set);
}  // namespace cpu

// "cpu", "cuda" ..., as in run.device.
const char* name_of(DeviceKind);

struct Target {
  DeviceKind device = DeviceKind::cpu;
  // For a CPU:
  cpu::Isa isa = cpu::Isa::avx2;
  bool bf16_dot_products = false;  // AVX512-BF16, which some processors of the avx512 set have
  int threads = 0;                 // threads per rank; 0: as many as on this machine
};

}  // namespace trireme
