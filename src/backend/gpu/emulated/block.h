// One block of GPU threads on the CPU: each thread has a context, which runs until it must wait for
// others at a barrier, a shuffle or a tile product. Blocks run one after another.
//
// Detects barriers that some threads never reach, threads at different barriers, reads of
// uninitialized shared memory (it is filled with NaN) and, under ThreadSanitizer, all pairs of
// accesses not ordered by a barrier, between threads and between blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <vector>

#include "backend/gpu/emulated/context.h"

namespace trireme::gpu::emulated {

using Place = std::source_location;

#ifndef TRIREME_EMULATED_WAVE
#define TRIREME_EMULATED_WAVE 32
#endif
inline constexpr int wave_width = TRIREME_EMULATED_WAVE;

struct Size {
  unsigned x = 1, y = 1, z = 1;
};

struct Thread;

// Threads waiting for each other.
struct Barrier {
  std::vector<Thread*> waiting;
  int expected = 0, arrived = 0;
  Place place;
};

struct Wave {
  static constexpr std::size_t slot_bytes = 64;

  Barrier barrier;
  // Values that lanes exchange. Two alternating sets, since a lane may be one exchange ahead.
  alignas(64) std::byte slots[2][wave_width][slot_bytes];
};

struct Thread {
  Context context;
  unsigned index = 0;  // in its block
  int lane = 0;
  int turn = 0;  // set of slots of the next exchange
  Wave* wave = nullptr;
};

// The running thread, which kernels query for their position.
struct Running {
  Thread* thread = nullptr;
  Size block, grid, threads;
};
extern Running running;

// Runs a kernel: `body` once per thread of each block of the grid. shared_bytes is the dynamic
// shared memory per block.
void run_grid(Size grid, unsigned threads, std::size_t shared_bytes,
              const std::function<void()>& body);

// Order in which runnable threads run; seed 0 is the order in which they became runnable.
void set_thread_order(std::uint64_t seed);

void sync_block(Place place);
void sync_wave(Place place);

// Publishes `bytes` of each lane to its wave: lane i's lie at slots + i * slot_bytes until the
// lane's next exchange but one. The last lane to arrive runs `complete`, if any. Does not order
// memory: registers need no ordering.
struct Exchange {
  const std::byte* slots;
};
Exchange exchange(const void* mine, std::size_t bytes, Place place,
                  void (*complete)(Exchange) = nullptr);

// Shared memory of declaration number `id`, common to all threads of the block.
std::byte* shared_memory(std::size_t id, std::size_t bytes);
std::byte* dynamic_shared_memory();
std::size_t new_shared_id();

[[noreturn]] void stop(const char* what);

}  // namespace trireme::gpu::emulated
