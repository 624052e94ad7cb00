// Branch-free tanh without division, for soft caps.
#pragma once

#include "backend/gpu/language.h"

namespace trireme::gpu {

// Uses a polynomial where 1 - 2 / (e^2x + 1) would lose digits (Cephes, tanhf).
GPU_FN float tangent(float x) {
  constexpr float twice_log2_of_e = 2.88539008f;
  const float square = x * x;
  float sum = -5.70498872745e-3f;
  sum = sum * square + 2.06390887954e-2f;
  sum = sum * square - 5.37397155531e-2f;
  sum = sum * square + 1.33314422036e-1f;
  sum = sum * square - 3.33332819422e-1f;
  const float far = 2.0f * reciprocal(1.0f + exp2(-twice_log2_of_e * x)) - 1.0f;
  return square < 0.625f * 0.625f ? sum * square * x + x : far;
}

}  // namespace trireme::gpu
