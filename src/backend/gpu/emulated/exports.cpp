// Functions for tests to query the emulated GPU, bypassing the plug-in.
#include <cstdint>

#include "backend/gpu/emulated/block.h"

extern "C" __attribute__((visibility("default"))) void trireme_emulated_thread_order(
    std::uint64_t seed) {
  trireme::gpu::emulated::set_thread_order(seed);
}
