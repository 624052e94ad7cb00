// The processes that train together, and their collective operations.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <trireme/config.h>
#include <trireme/export.h>

namespace trireme::v1 {

// A job of this process only, or of all processes that mpirun or srun started together. It sets up
// MPI, the device and this process's share of the processors, so create it before anything that
// starts threads.
//
// A single process can create and destroy any number of jobs. MPI can be initialized only once per
// process: with several processes, create one job that lives as long as they train, with any number
// of trainers one after another. A second one is rejected (bad_input).
//
// Not thread-safe: only one thread at a time may use a job and its trainers.
class TRIREME_API Job {
 public:
  // Uses run.device = "cpu" and a timeout of ten minutes.
  Job();
  // Uses run.device and train.timeout_s of the configuration.
  explicit Job(const Config& config);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const;        // from 0
  int size() const;        // number of processes
  int local_rank() const;  // rank among the processes on this machine
  bool leads() const { return rank() == 0; }

  // Runs `body` on all processes, then leaves the job with them. If `body` throws, a single process
  // rethrows the exception; with several processes, one of them prints the error, all end, and
  // run() does not return. With several processes, call it once, and do all communication,
  // including trainers, within it.
  void run(const std::function<void()>& body);

  // Collective operations: all processes call them in the same order, and each gets the result.
  // Sums are computed in rank order, so they have the same bits on every process.
  double sum(double value);
  std::vector<double> sum(std::vector<double> values);  // elementwise; equal sizes
  double max(double value);
  std::vector<double> gather(double value);        // by rank
  std::string broadcast(const std::string& text);  // text of rank 0
  void barrier();

  struct Impl;
  Impl& impl() { return *impl_; }  // internal

 private:
  std::unique_ptr<Impl> impl_;
};

// For main(): runs `body` and returns the exit code: 0, or that of an exception that `body` throws,
// whose message is printed ("trireme: ...").
TRIREME_API int run_program(const std::function<void()>& body);

}  // namespace trireme::v1
