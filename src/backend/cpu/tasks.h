// Runs the tasks of a kernel on the global pool, through plain pointers. Kernels are compiled once
// per instruction set; were they to instantiate std::function themselves, the linker could keep the
// copy that was compiled for the widest set and an older processor would run it.
#pragma once

#include <cstdint>

namespace trireme::cpu {

using TaskBody = void (*)(const void* context, std::int64_t task);

// Calls body(context, task) for every task in [0, tasks), in any order, and returns when all are
// done.
void run_tasks(std::int64_t tasks, TaskBody body, const void* context);

// Threads of the global pool: for kernels that choose between cuts of the same result.
int pool_threads();

}  // namespace trireme::cpu
