// The processors of a machine, shared out among the processes of a job.
#pragma once

#include <vector>

namespace trireme {

// Set by --nproc to the number of processors that it may use: its processes then take a part each.
// Bound by the program and not by its launcher, since every MPI has another way to say it.
constexpr const char* share_processors_variable = "TRIREME_SHARE_PROCESSORS";

// The logical processors that this thread may run on: packages one after the other, hardware
// threads of one core side by side. Empty where the system does not tell.
std::vector<int> own_processors();

// Part `index` of `processors` cut into `count` parts, which differ by one processor at most; empty
// where there are fewer processors than parts.
std::vector<int> part_of(const std::vector<int>& processors, int index, int count);

// Keeps this thread, and the threads that it starts later, on its part of the processors, if
// --nproc asked for it and nothing else has bound it. `index` and `count`: its place among the
// processes of this machine.
void share_processors(int index, int count);

}  // namespace trireme
