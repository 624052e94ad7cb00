// Features of the processor and the system; isa() and name_of(Isa) of kernels.h use it.
#pragma once

#include "backend/cpu/kernels.h"

namespace trireme::cpu {

// avx2: AVX2, FMA and F16C. avx512: F, VL, BW, DQ, CD. amx: tiles and AMX-BF16 (the system's
// permission included) with AVX512-BF16 and AVX512-FP16, or their emulation.
bool supports(Isa set);

// Whether Isa::amx is an emulation here: in programs that link one (tests do), where the processor
// has no AMX or TRIREME_ISA is "amx-emulated". isa() is it only where TRIREME_ISA asks for it.
bool emulates_amx();

// The best set that the processor itself has, whatever TRIREME_ISA is.
Isa best_isa();

// Dot products of bf16 pairs in 512-bit registers; some processors of the avx512 set have them.
bool has_avx512_bf16();

// The processor that this program runs on, or the part of it that TRIREME_ISA allows.
Target this_machine(Isa set = isa());

}  // namespace trireme::cpu
