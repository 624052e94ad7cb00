// Splits a kernel's work into tasks for the thread pool. The split depends only on the problem
// size; work too short to wake the pool runs in the calling thread.
#pragma once

#include <cstdint>

#include "backend/cpu/tasks.h"

namespace trireme::cpu::TRIREME_ISA {

// Runs body(task) for every task in [0, tasks).
template <class Body>
void parallel_tasks(std::int64_t tasks, const Body& body) {
  if (tasks <= 1) {
    if (tasks == 1) body(std::int64_t{0});
    return;
  }
  run_tasks(
      tasks,
      [](const void* context, std::int64_t task) { (*static_cast<const Body*>(context))(task); },
      &body);
}

// Work, in nanoseconds of one thread, below which a kernel runs in the calling thread,
// and the minimum per task.
inline constexpr double inline_ns = 20000;
inline constexpr double task_ns = 10000;

// Cost of moving one byte, in nanoseconds of one thread.
inline constexpr double byte_ns = 0.1;

// Items per task, where `item_ns` estimates an item's cost in nanoseconds of one thread.
inline std::int64_t items_per_task(std::int64_t items, double item_ns) {
  if (static_cast<double>(items) * item_ns < inline_ns) return items;
  const auto grain = static_cast<std::int64_t>(task_ns / item_ns);
  return grain < 1 ? 1 : grain;
}

// Runs body(begin, end) over pieces of [0, items) whose size is a multiple of `multiple`, for work
// whose result does not depend on the split.
template <class Body>
void parallel_pieces(std::int64_t items, double item_ns, const Body& body,
                     std::int64_t multiple = 1) {
  if (items <= 0) return;
  const std::int64_t wanted = items_per_task(items, item_ns);
  const std::int64_t grain = (wanted + multiple - 1) / multiple * multiple;
  parallel_tasks((items + grain - 1) / grain, [&](std::int64_t task) {
    const std::int64_t begin = task * grain;
    body(begin, begin + grain < items ? begin + grain : items);
  });
}

}  // namespace trireme::cpu::TRIREME_ISA
