// The processors of a machine, shared out among the processes of a job.
#pragma once

#include <functional>
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

// The processors of a NUMA node that are among `processors`, in their order; none where the system
// does not know the node.
std::vector<int> processors_near(const std::vector<int>& processors, int node);

// Part `index` of `processors` where each of the parts has a NUMA node that it shall lie in, -1 for
// none, and `near` gives the processors of a node: parts of one node are cut out of it. Empty where
// that cannot be done for all.
std::vector<int> near_part_of(const std::vector<int>& nodes, int index,
                              const std::function<std::vector<int>(int node)>& near);

// Keeps this thread, and the threads that it starts later, on its part of the processors, if
// --nproc asked for it and nothing else has bound it. `index` and `count`: its place among the
// processes of this machine. `nodes`: of each of them, as near_part_of; may be empty.
void share_processors(int index, int count, const std::vector<int>& nodes = {});

}  // namespace trireme
