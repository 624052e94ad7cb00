// One block of GPU threads on the CPU: a context for each thread, which runs until it has to wait
// for others at a barrier, a shuffle or a tile product. Blocks run one after another.
//
// Checked: a barrier that some threads never reach, threads at different barriers, reads of shared
// memory that was never written (it is filled with NaN), and under ThreadSanitizer every pair of
// accesses that no barrier orders, between threads and between blocks.
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

// Threads that wait for each other.
struct Barrier {
  std::vector<Thread*> waiting;
  int expected = 0, arrived = 0;
  Place place;
};

struct Wave {
  static constexpr std::size_t slot_bytes = 64;

  Barrier barrier;
  // What each lane shows to the others. Two in turn, because a lane may be one exchange ahead.
  alignas(64) std::byte slots[2][wave_width][slot_bytes];
};

struct Thread {
  Context context;
  unsigned index = 0;  // in its block
  int lane = 0;
  int turn = 0;  // which slots the next exchange takes
  Wave* wave = nullptr;
};

// What runs now. Kernels ask it where they are.
struct Running {
  Thread* thread = nullptr;
  Size block, grid, threads;
};
extern Running running;

// Runs a kernel: `body` once for each thread of each block of the grid. shared_bytes: dynamic
// shared memory of a block.
void run_grid(Size grid, unsigned threads, std::size_t shared_bytes,
              const std::function<void()>& body);

// The order in which threads that could run do run: 0 is the order in which they became able to.
void set_thread_order(std::uint64_t seed);

void sync_block(Place place);
void sync_wave(Place place);

// Shows `bytes` of each lane to the others of its wave; lane i's lie at slots + i * slot_bytes
// until the lane's next exchange but one. The last lane to come runs `complete`, if any. Orders
// nothing: what a register holds needs no order.
struct Exchange {
  const std::byte* slots;
};
Exchange exchange(const void* mine, std::size_t bytes, Place place,
                  void (*complete)(Exchange) = nullptr);

// Shared memory of this block for declaration number `id`: the same for all its threads.
std::byte* shared_memory(std::size_t id, std::size_t bytes);
std::byte* dynamic_shared_memory();
std::size_t new_shared_id();

[[noreturn]] void stop(const char* what);

}  // namespace trireme::gpu::emulated
