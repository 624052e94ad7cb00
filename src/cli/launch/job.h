// A multi-process job on this machine: mpirun runs the ranks; this process forwards their output
// and the signals that ask them to stop.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace trireme::cli {

// State that rank 0 reports through a file to the process that started the job: launchers do not
// report it, and some lose exit codes.
enum class JobState {
  starting,     // a signal now has nothing to save
  listening,    // all ranks handle signals
  interrupted,  // all ranks have saved and stopped on a signal
  done,         // all ranks have finished
};

// Whether run_job() started this process.
bool is_in_job();
// Call on rank 0 of such a job; does nothing in any other process.
void notify_job(JobState state);
// Call on a rank of such a job that received a signal: returns the signal that the starting process
// received, if it is a different one.
int signal_of_job(int signal);
// Call on each rank of such a job: unblocks the signals hidden from mpirun, and signals until exit
// that the process is alive.
void install_signal_handlers();

// Runs the command, mpirun with its arguments, and ends this process with its exit code: 3 if the
// ranks were interrupted and saved; dies of the signal if there was nothing to save.
//
// The first signal makes the ranks save and stop; a second Ctrl-C ends them immediately, a
// third one also kills mpirun. `failed` is called with a sentence on every unsuccessful
// end.
[[noreturn]] void run_job(const std::vector<std::string>& command,
                          const std::function<void(const std::string&)>& failed);

}  // namespace trireme::cli
