// A job of several processes on this machine: mpirun runs the ranks, this process passes on what
// they print and the signals that ask them to stop.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace trireme::cli {

// State that rank 0 reports to the process that started the job, in a file: launchers do not report
// it, and some lose exit codes.
enum class JobState {
  starting,     // a signal now finds nothing to save
  listening,    // all ranks note signals
  interrupted,  // all ranks have stopped because of a signal, and saved
  done,         // all ranks have come to the end
};

// Whether run_job() started this process.
bool is_in_job();
// For rank 0 of such a job; does nothing in any other process.
void notify_job(JobState state);
// For each rank of such a job, which a signal reached: the one that the process that started the
// job got, where it is another.
int signal_of_job(int signal);
// For each rank of such a job: lets the signals through again that mpirun must not see, and shows
// until its end that it lives.
void install_signal_handlers();

// Runs the command, mpirun and its arguments, and ends this process with its exit code: 3 where the
// ranks were interrupted and saved, and the death of the signal where there was nothing to save.
//
// The first signal that asks for an end makes the ranks save and stop; a second Ctrl-C ends them
// immediately, a third one kills mpirun too. `failed` is called for every end other than success,
// with a sentence.
[[noreturn]] void run_job(const std::vector<std::string>& command,
                          const std::function<void(const std::string&)>& failed);

}  // namespace trireme::cli
