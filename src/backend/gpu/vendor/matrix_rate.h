// Peak bf16 flops of the matrix units per clock, from the vendors' data sheets.
#pragma once

#include <string_view>

namespace trireme::gpu {

// Flops per clock and SM; 0 if the matrix units do not support bf16. H100: 989 TFLOP/s =
// 132 SMs x 4096 x 1.83 GHz.
constexpr double flops_per_clock_of_nvidia(int major, int minor) {
  switch (major) {
    case 8:
      return minor == 0 ? 2048 : 1024;
    case 9:
      return 4096;
    case 10:
      return 8192;
    case 11:
    case 12:
      return 1024;
    default:
      return 0;
  }
}

// Flops per clock and compute unit (CU): MI250X 191.5 TFLOP/s per die of 110 CUs at 1.7 GHz, MI300X
// 1307 TFLOP/s of 304 at 2.1 GHz, RX 7900 122.8 TFLOP/s of 96 at 2.5 GHz.
constexpr double flops_per_clock_of_amd(std::string_view architecture) {
  if (architecture.starts_with("gfx90a")) return 1024;
  if (architecture.starts_with("gfx94")) return 2048;
  if (architecture.starts_with("gfx95")) return 4096;
  if (architecture.starts_with("gfx11")) return 512;
  return 0;
}

}  // namespace trireme::gpu
