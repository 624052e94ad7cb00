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

// This process according to its launcher's environment. Without a launcher: one process.
struct LaunchInfo {
  int rank = 0;
  int size = 1;
  std::string launcher;  // name for messages; empty without a launcher
};

// Reads the variables of Open MPI, PMI (MPICH, Intel, Cray) and SLURM job steps
// through `get` (std::getenv). Rejects (exit code 2) non-numeric values, and torchrun
// variables for several processes.
using GetVariable = std::function<const char*(const char*)>;
LaunchInfo discover_launch(const GetVariable& get);
LaunchInfo discover_launch();

// The launcher of this build's MPI library: TRIREME_MPIRUN if it is set
// and not empty, else the one found with the library, else mpirun. Fails
// if the build has no MPI part.
std::string mpi_launcher();

// The MPI libraries of this build and of this machine.
struct MpiInfo {
  std::string plugin;    // the program's MPI part; empty if it was built without
  std::string library;   // "Open MPI v4.1.4"; empty if it cannot be loaded
  std::string problem;   // why it cannot be loaded
  std::string advice;    // how to install the MPI part if it is missing
  std::string launcher;  // see mpi_launcher()
};
MpiInfo find_mpi();

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the processes on this node
  int local_size = 1;
  std::string host;
  int local_processors = 1;  // available to the node's processes together
};

// Notified of each completed operation of this rank, from whichever thread noticed it.
class OperationListener {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~OperationListener() = default;
  // `sent_bytes` counts what this rank sent.
  virtual void completed(const std::string& group, const Label& label, std::int64_t sent_bytes,
                         Time begin, Time end) = 0;
};

// Work of a rank that may legitimately exceed the limit on waits:
// reading or writing files.
struct Activity {
  bool busy = false;
  std::uint64_t moved =
      0;             // changes from one answer to the next if any progress was made: bytes, files
  std::string text;  // "is writing a checkpoint, 31.0 of 84.0 GiB"
};
// Called from another thread while the rank is busy. Must not block.
using ActivitySource = std::function<Activity()>;

// Counts of what a rank has sent so far, without control messages and the
// network library's own messages.
struct SentMessages {
  std::int64_t messages = 0, bytes = 0;
  int groups = 0;  // joined groups, besides the world
};

// Information available to a rank when it ends the job.
struct LastMessage {
  std::string text;         // as printed
  std::vector<int> silent;  // world ranks that did not answer a watchdog
};
using LastOutput = std::function<void(const LastMessage& message)>;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual const Place& place() const = 0;
  // All ranks of the job.
  virtual Communicator& world() = 0;
  // Creates a communicator of `world_ranks` (distinct, this rank among them). Called by exactly
  // these ranks, in the same order for groups that share ranks; blocks until all have called. The
  // transport must outlive it.
  virtual std::unique_ptr<Communicator> group(std::vector<int> world_ranks, std::string name) = 0;

  // Creates a group of operations that this transport does not advance, among ranks of this job.
  // Purely local; null if unsupported. The transport must outlive it.
  virtual std::unique_ptr<OutsideGroup> outside_group(std::vector<int> /*world_ranks*/,
                                                      const std::string& /*name*/) {
    return nullptr;
  }

  // What this rank has sent in all groups; zero for a single process.
  virtual SentMessages sent() const { return {}; }

  // Sets the listener (null: none), which must outlive all pending operations.
  virtual void set_listener(OperationListener* listener) = 0;

  // Sets this rank's answer to ranks that have waited too long. They keep waiting as long as the
  // activity makes progress.
  virtual void set_activity(ActivitySource source) = 0;

  // Sets a function called once if this rank ends the job (watchdog or abort()), with the printed
  // message. It runs in whichever thread notices, so it must not touch the rank's own data, and
  // has a few seconds at most.
  virtual void set_last_output(LastOutput words) = 0;

  // Sets a function called after the last output if this rank ends the job, to free what would
  // block a device or another rank. It runs in a thread with a few seconds' limit. Null: none.
  virtual void set_before_end(std::function<void()> /*free*/) {}

  // Orderly shutdown of all ranks: blocks until all have called it, since no rank may leave while
  // others can still query it. Nothing is sent afterwards. A transport destroyed without it
  // belongs to a failed rank.
  virtual void leave() = 0;

  // Ends the job on all ranks with `exit_code` and a single message, "trireme: rank 3 (node7):
  // ...". If several ranks fail at once, only one prints. Call it with every error that ends a
  // rank's work, so that no other rank waits for it.
  [[noreturn]] virtual void abort(int exit_code, const std::string& message) = 0;

  // Exit code of this process (0 by default) if the library behind the transport hangs after
  // leave() and has to be abandoned.
  virtual void set_exit_code(int /*code*/) {}

  // Host of each rank of the job. Default: all on one host.
  virtual std::vector<std::string> hosts() const {
    return std::vector<std::string>(static_cast<std::size_t>(place().size), place().host);
  }
};

struct TransportOptions {
  // A wait of this length ends the job with a message naming the operation and the missing ranks
  // (train.timeout_s). Time in which the waiting rank was suspended does not count.
  double timeout_s = 600;
  // NUMA node closest to each local rank's GPU, preferred by --nproc when it binds processes; -1 if
  // unknown, empty without GPUs.
  std::vector<int> near_nodes;
};

// Joins the launcher's job; without a launcher, returns a transport whose groups
// have one member. Call once per process, before anything that can fail
// differently on different ranks.
std::unique_ptr<Transport> open_transport(const TransportOptions& options);

// Runs `body`, then leaves the job together with all ranks. An error goes to Transport::abort if
// there are other ranks; a single process rethrows it.
void run_guarded(Transport& transport, const std::function<void()>& body);

// A property that must be equal on all ranks, e.g. {"configuration", hash of its text}.
struct Agreement {
  std::string what;
  std::uint64_t hash;
};

// Compares the properties among all ranks of `world` and fails, with the same message on every
// rank, naming what differs and the ranks that differ from the most frequent value. All ranks
// pass the same number of properties in the same order.
void check_agreement(Communicator& world, const std::vector<Agreement>& properties);

}  // namespace trireme
