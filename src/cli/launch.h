// Starts this program again as several processes.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::cli {

// The words of the command that runs now, its program by its whole path, without these flags and
// their values.
std::vector<std::string> own_command_without(std::initializer_list<std::string_view> flags);

// Sets the variables of this process that the launcher and the processes read.
void prepare_launch(int processes);

// Runs the mpirun of this build's MPI (mpi_launcher) with the same command without --nproc, and
// ends this process as run_job() says. Signals that were ignored, as under nohup, stay so. Returns
// only for one process; a command that already runs under a launcher is refused. Where the
// processes end without saying so in the status.json of `run_folder`, it is said for them; empty:
// there is no such folder.
void launch_processes(int processes, const std::string& run_folder);

}  // namespace trireme::cli
