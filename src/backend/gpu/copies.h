// Copies from device memory to shared memory that go on while the thread computes, where the
// processor has them.
//
// A thread begins copies, ends a group of them with commit(), and later waits for all but its
// newest groups; other threads see what was copied behind the next barrier.
#pragma once

#include "backend/gpu/language.h"

namespace trireme::gpu {
// Pieces that lie in shared memory at a time, where one is computed with while others come.
#if TRIREME_HIP
inline constexpr int copy_stages = 2;
#else
inline constexpr int copy_stages = 3;
#endif
}  // namespace trireme::gpu

#if TRIREME_EMULATED
#include "backend/gpu/emulated/copies.h"
#else
#include "backend/gpu/vendor/copies.h"
#endif
