// The job that this process belongs to: its place, its groups, and how it ends when a rank fails.
//
// A single process needs no MPI at run time: the MPI part is a plugin (libtrireme_mpi.so) that is
// loaded only if a launcher (mpirun, srun) started several processes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/outside_group.h"

namespace trireme {

// This process as its launcher's environment describes it. Without a launcher: one process.
struct LaunchInfo {
  int rank = 0;
  int size = 1;
  std::string launcher;  // who, for messages; empty without one
};

// Reads the variables of Open MPI, PMI (MPICH, Intel, Cray) and SLURM job steps through `get`
// (std::getenv). Refused (exit code 2): values that are not numbers, and variables of torchrun that
// mean several processes.
using GetVariable = std::function<const char*(const char*)>;
LaunchInfo discover_launch(const GetVariable& get);
LaunchInfo discover_launch();

// The program that starts processes for the MPI library of this build: TRIREME_MPIRUN if it is set
// and not empty, else the one that was found with the library, else mpirun. Fails where the build
// has no MPI part.
std::string mpi_launcher();

// The MPI of this build and of this machine.
struct MpiInfo {
  std::string plugin;    // the program's MPI part; empty if it was built without
  std::string library;   // "Open MPI v4.1.4"; empty if it cannot be loaded
  std::string problem;   // why not
  std::string advice;    // how to install the MPI part if it is missing
  std::string launcher;  // as mpi_launcher()
};
MpiInfo find_mpi();

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the processes on this node
  int local_size = 1;
  std::string host;
  int local_processors = 1;  // that the processes on this node may use together
};

// Told of each operation of this rank once it is complete, in whichever thread noticed it.
class OperationListener {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~OperationListener() = default;
  // `sent_bytes`: by this rank.
  virtual void completed(const std::string& group, const Label& label, std::int64_t sent_bytes,
                         Time begin, Time end) = 0;
};

// Work of a rank that may take longer than the limit on waits although nothing is wrong: it reads
// or writes files.
struct Activity {
  bool busy = false;
  std::uint64_t moved =
      0;             // differs from the last answer if something has moved since: bytes, files
  std::string text;  // "is writing a checkpoint, 31.0 of 84.0 GiB"
};
// Asked from another thread while the rank is busy. Must not wait.
using ActivitySource = std::function<Activity()>;

// Counts of what a rank has sent so far, without control messages and what the network's own
// library sends.
struct SentMessages {
  std::int64_t messages = 0, bytes = 0;
  int groups = 0;  // that it has joined, in addition to the world
};

// The information that a rank has when it ends the job.
struct LastMessage {
  std::string text;         // that it has printed
  std::vector<int> silent;  // world ranks that did not answer a watchdog
};
using LastOutput = std::function<void(const LastMessage& message)>;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual const Place& place() const = 0;
  // All ranks of the job.
  virtual Communicator& world() = 0;
  // A communicator for `world_ranks` (this rank among them, none twice). All of them, and only
  // they, call this, in the same order for groups that share ranks. Waits until all have. The
  // transport must outlive it.
  virtual std::unique_ptr<Communicator> group(std::vector<int> world_ranks, std::string name) = 0;

  // A group of operations that this transport does not move, among ranks of this job. Needs no
  // other rank; null where there are none. The transport must outlive it.
  virtual std::unique_ptr<OutsideGroup> outside_group(std::vector<int> /*world_ranks*/,
                                                      const std::string& /*name*/) {
    return nullptr;
  }

  // Sent by this rank in all groups; nothing for a single process.
  virtual SentMessages sent() const { return {}; }

  // From now on; null: none. The listener must outlive every operation under way.
  virtual void set_listener(OperationListener* listener) = 0;

  // Sets the answer of this rank to others that have waited too long. They continue to wait while
  // the activity makes progress.
  virtual void set_activity(ActivitySource source) = 0;

  // Called once if this rank ends the job (a watchdog that fires, or abort()), with the message
  // that it printed. Runs in whichever thread notices, so it touches none of the rank's own data,
  // and is given a few seconds at most.
  virtual void set_last_output(LastOutput words) = 0;

  // Called if this rank ends the job, after the last output: frees what would keep a device or
  // another rank waiting. Runs in a thread that is given a few seconds. Null: nothing.
  virtual void set_before_end(std::function<void()> /*free*/) {}

  // The orderly end of all ranks together: waits until all have called it, since no rank may leave
  // while another can still query it. Nothing is sent after it. A transport that is destroyed
  // without it belongs to a rank that failed.
  virtual void leave() = 0;

  // Ends the job on all ranks with `exit_code` and this one message, "trireme: rank 3 (node7):
  // ...". If several ranks fail at the same time, only one prints. Call it with every error that
  // ends a rank's work, so that no other rank waits for it.
  [[noreturn]] virtual void abort(int exit_code, const std::string& message) = 0;

  // Exit code of this process (0 by default) if the library behind the transport hangs after
  // leave() and has to be abandoned.
  virtual void set_exit_code(int /*code*/) {}

  // The host of each rank of the job. Here: one host has them all.
  virtual std::vector<std::string> hosts() const {
    return std::vector<std::string>(static_cast<std::size_t>(place().size), place().host);
  }
};

struct TransportOptions {
  // A wait of this long ends the job, with a message that names the operation and the ranks that
  // did not arrive (train.timeout_s). Time in which the waiting rank was suspended does not count.
  double timeout_s = 600;
  // The NUMA node near to the GPU of each local rank, which --nproc's sharing of processors then
  // prefers; -1 where it is not known, empty without GPUs.
  std::vector<int> near_nodes;
};

// Joins the job that the launcher started; without a launcher, a transport whose groups all have
// one member. Call it once per process, before anything that can fail differently on different
// ranks.
std::unique_ptr<Transport> open_transport(const TransportOptions& options);

// Runs `body`, leaves the job together with all other ranks, and passes the error that ends it to
// Transport::abort if there are other ranks; a single process just rethrows it.
void run_guarded(Transport& transport, const std::function<void()>& body);

// One property that must be the same on all ranks, e.g. {"configuration", hash of its text}.
struct Agreement {
  std::string what;
  std::uint64_t hash;
};

// Compares the properties among all ranks of `world` and fails, on every rank with the same
// message, naming what differs and the ranks that differ from the most frequent value. All ranks
// pass the same number of properties in the same order.
void check_agreement(Communicator& world, const std::vector<Agreement>& properties);

}  // namespace trireme
