// Assignment of a machine's processors to the processes of a job.
#pragma once

#include <functional>
#include <vector>

namespace trireme {

// Set by --nproc to the number of processors that it may use; each process then takes a part. The
// program binds itself because the launchers of MPI libraries have different options for it.
constexpr const char* share_processors_variable = "TRIREME_SHARE_PROCESSORS";

// Logical processors that this thread may run on, ordered by package, with the hardware threads of
// a core adjacent. Empty if the system does not report them.
std::vector<int> own_processors();

// Part `index` of `count` parts of `processors`, whose sizes differ by at most one; empty if there
// are fewer processors than parts.
std::vector<int> part_of(const std::vector<int>& processors, int index, int count);

// The subset of `processors` on a NUMA node, in the same order; empty if the
// system does not know the node.
std::vector<int> processors_near(const std::vector<int>& processors, int node);

// Part `index` when each part has a preferred NUMA node (-1: none) and `near` returns
// the processors of a node: parts with the same node split it. Empty if that is
// impossible for any of the parts.
std::vector<int> near_part_of(const std::vector<int>& nodes, int index,
                              const std::function<std::vector<int>(int node)>& near);

// Binds this thread, and threads it starts later, to its part of the processors, if --nproc asked
// for it and no other binding exists. `index` of `count` is this process's place on its machine.
// `nodes`: NUMA node per process, as for near_part_of; may be empty.
void share_processors(int index, int count, const std::vector<int>& nodes = {});

}  // namespace trireme
