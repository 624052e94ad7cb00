// Runs the tasks of a kernel on the global pool, through plain pointers. Kernels are compiled once
// per instruction set; if they instantiated std::function, the linker could keep the copy that was
// compiled for the widest set, which an older processor would then run.
#pragma once

#include <cstdint>

namespace trireme::cpu {

using TaskBody = void (*)(const void* context, std::int64_t task);

// Calls body(context, task) for every task in [0, tasks), in any order; returns
// when all have completed.
void run_tasks(std::int64_t tasks, TaskBody body, const void* context);

// Number of threads of the global pool, for kernels that choose between equivalent partitions.
int pool_threads();

}  // namespace trireme::cpu
