// The processes that train together, and how they talk to each other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <trireme/config.h>
#include <trireme/export.h>

namespace trireme::v1 {

// This process alone, or one of those that mpirun or srun started together. Its devices, its MPI
// and its share of the processors are set up here, so make it before anything else that starts
// threads.
//
// Alone, jobs can be made and destroyed as often as one likes. MPI lets a process join once: of
// several processes the job is made once and lives as long as they train, with any number of
// trainers one after another; a second one is refused.
//
// One thread at a time uses a job and the trainers on it.
class TRIREME_API Job {
 public:
  // For run.device = "cpu", and waits of at most ten minutes.
  Job();
  // For run.device and train.timeout_s of the configuration.
  explicit Job(const Config& config);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const;        // of this process, from 0
  int size() const;        // processes
  int local_rank() const;  // among those on this machine
  bool leads() const { return rank() == 0; }

  // Runs what all processes do together, then leaves the job with them. An error that ends the body
  // of one process ends all of them: alone it comes out of here, of several processes one prints
  // it, and none returns. Of several processes it is called once, and what communicates (trainers
  // too) happens within it.
  void run(const std::function<void()>& body);

  // Of all processes together, in the same order on each; every one gets the result. Sums are in
  // the order of the ranks, so that they are the same bits everywhere.
  double sum(double value);
  std::vector<double> sum(std::vector<double> values);  // element by element; as many on each
  double max(double value);
  std::vector<double> gather(double value);        // by rank
  std::string broadcast(const std::string& text);  // that of rank 0
  void barrier();

  struct Impl;
  Impl& impl() { return *impl_; }  // the library's own

 private:
  std::unique_ptr<Impl> impl_;
};

// For main(): runs the body, prints the error that ends it ("trireme: ..."), and returns the exit
// code that belongs to it.
TRIREME_API int run_program(const std::function<void()>& body);

}  // namespace trireme::v1
