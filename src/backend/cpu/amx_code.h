// The code of Isa::amx: for real processors, or for an emulation in programs that
// link one. Only tests do.
#pragma once

#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/kernels/few_rows.h"

namespace trireme::cpu {

template <class T>
struct AmxKernels {
  const Kernels<T>& (*table)();
  void (*few_rows)(const FewRows<T>& product, std::int64_t first, std::int64_t end);
};
// fp64 has no kernels of its own (storage_types.h).
struct AmxCode : AmxKernels<float>, AmxKernels<bf16>, AmxKernels<f16> {
  decltype(&amx::pack) pack;
  decltype(&amx::run) run;
  decltype(&amx::max_outer_vectors) max_outer_vectors;
};

// AmxCode of the functions compiled in namespace `space`, with the kernels of `others` for types
// other than bf16.
#define TRIREME_AMX_CODE(space, others)                                          \
  trireme::cpu::AmxCode {                                                        \
    {&others::table<float>, &space::few_rows<float>},                            \
        {&space::table<bf16>, &space::few_rows<bf16>},                           \
        {&others::table<f16>, &space::few_rows<f16>}, &space::pack, &space::run, \
        &space::max_outer_vectors                                                \
  }

// Code compiled for processors with AMX, to run on them.
const AmxCode& processors_amx();

// Null except in programs that link the emulation, which defines it a second time.
const AmxCode* emulated_amx();

// The emulation if it is linked and the processor lacks AMX or TRIREME_ISA is "amx-emulated".
const AmxCode& amx_code();

}  // namespace trireme::cpu
