// Starts this program again as several processes.
#pragma once

namespace trireme::cli {

// Replaces this process by `mpirun -n processes` of the same command without --nproc. Returns only
// where the command already runs under a launcher with that many processes.
void launch_processes(int processes);

}  // namespace trireme::cli
