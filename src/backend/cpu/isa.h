// What the processor and the system offer; isa() and name_of(Isa) of kernels.h use it.
#pragma once

#include "backend/cpu/kernels.h"

namespace trireme::cpu {

// avx2: AVX2, FMA and F16C. avx512: F, VL, BW, DQ, CD. amx: tiles and AMX-BF16 (the system's
// permission included) with AVX512-BF16 and AVX512-FP16.
bool supports(Isa set);

// The best supported set, whatever TRIREME_ISA is.
Isa best_isa();

// Dot products of bf16 pairs in 512-bit registers; some processors of the avx512 set have them.
bool has_avx512_bf16();

// The processor that this program runs on, or the part of it that TRIREME_ISA allows.
Target this_machine();

}  // namespace trireme::cpu
