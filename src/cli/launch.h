// Starts this program again as several processes.
#pragma once

namespace trireme::cli {

// Runs the mpirun of this build's MPI (mpi_launcher) with the same command without --nproc, and
// ends this process as run_job() says. Signals that were ignored, as under nohup, stay so. Returns
// only for one process; a command that already runs under a launcher is refused.
void launch_processes(int processes);

}  // namespace trireme::cli
