// Relaunches this program as several processes.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::cli {

// Returns the words of the current command, with the absolute path of its program, without these
// flags and their values.
std::vector<std::string> own_command_without(std::initializer_list<std::string_view> flags);

// Sets the environment variables that the launcher and its processes read.
void prepare_launch(int processes);

// Runs this build's mpirun (mpi_launcher) with the same command without --nproc, and ends this
// process as run_job() does. Ignored signals, as under nohup, stay ignored. Returns only for a
// single process; rejects a command already running under a launcher. If the processes end
// without updating the status.json of `run_folder`, it is updated for them; empty: no run
// folder.
void launch_processes(int processes, const std::string& run_folder);

}  // namespace trireme::cli
