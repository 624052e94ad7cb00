// Opens the transport: a group of one without MPI, otherwise through the plugin.
#include "comm/transport.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/as_error.h"
#include "base/error.h"
#include "comm/alarm_limit.h"
#include "comm/cores.h"
#include "comm/group.h"
#include "comm/handshake.h"
#include "comm/plugin_loader.h"

namespace trireme {
namespace {

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "unknown host";
  return name;
}

class SelfTransport final : public Transport {
 public:
  SelfTransport() : world_(make_self_communicator(0, "world")) { place_.host = host_name(); }

  const Place& place() const override { return place_; }
  Communicator& world() override { return *world_; }
  std::unique_ptr<Communicator> group(std::vector<int> world_ranks, std::string name) override {
    TRIREME_CHECK(world_ranks == std::vector<int>{0});
    return make_self_communicator(0, std::move(name));
  }
  void set_listener(OperationListener*) override {}  // nothing is ever sent
  void set_activity(ActivitySource) override {}      // never queried
  void set_last_output(LastOutput words) override { last_output_ = std::move(words); }
  void leave() override {}
  void abort(int exit_code, const std::string& message) override {
    std::fprintf(stderr, "trireme: %s\n", message.c_str());
    if (last_output_) last_output_({message, {}});
    std::fflush(nullptr);
    std::_Exit(exit_code);
  }

 private:
  Place place_;
  std::unique_ptr<Communicator> world_;
  LastOutput last_output_;
};

constexpr double least_start_s = 60;  // of many processes on a busy machine

// MPI's initialization waits forever if processes cannot reach each other, and our
// watchdog is not running yet.
AlarmLimit start_limit(double seconds, const LaunchInfo& launch) {
  const double whole = std::ceil(std::clamp(seconds, least_start_s, 1e6));
  return AlarmLimit(
      whole,
      fmt::format(
          "trireme: rank {} ({}): MPI did not start within {:.0f} s: a process is missing, or the "
          "network between the nodes (started by {}) does not transfer messages; trireme doctor "
          "--nodes shows where\n",
          launch.rank, host_name(), whole, launch.launcher),
      static_cast<int>(ExitCode::failed));
}

using Unreached = std::function<void(const Reach&)>;

constexpr double last_lines_s = 1;    // of ranks that are cut off, which launchers drop later
constexpr double others_wait_s = 10;  // time for the reporting rank to end the job

// Returns if every two ranks reach each other; otherwise ends the job.
void shake_hands(Wire& wire, double limit_s, const Unreached& unreached) {
  Handshake handshake(wire, limit_s);
  const Reach& reach = handshake.reach();
  if (reach.dead.empty()) return;
  if (reach.reports) {
    try {
      unreached(reach);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "trireme: rank %d: %s\n", reach.rank, as_error(error).what());
    }
    std::fflush(nullptr);
  }
  handshake.serve(reach.reports && reach.hears_most() ? last_lines_s : others_wait_s);
  wire.abort(static_cast<int>(ExitCode::failed));
}

std::unique_ptr<Transport> join_job(const TransportOptions& options, const Unreached& unreached) {
  const LaunchInfo launch = discover_launch();
  if (launch.size == 1) return std::make_unique<SelfTransport>();
  std::unique_ptr<Wire> wire;
  {
    const AlarmLimit limit = start_limit(options.timeout_s, launch);
    wire = open_mpi_wire(launch, [&](Wire& begun) {
      if (unreached) shake_hands(begun, options.timeout_s, unreached);
    });
  }
  // Must precede the start of our first thread.
  share_processors(wire->place().local_rank, wire->place().local_size, options.near_nodes);
  return make_wire_transport(std::move(wire), {.timeout_s = options.timeout_s});
}

}  // namespace

std::unique_ptr<Transport> open_transport(const TransportOptions& options) {
  return join_job(options, nullptr);
}

std::unique_ptr<Transport> open_transport_after_handshake(const TransportOptions& options,
                                                          const Unreached& unreached) {
  return join_job(options, unreached);
}

void run_guarded(Transport& transport, const std::function<void()>& body) {
  if (transport.place().size == 1) return body();
  try {
    body();
    transport.leave();
  } catch (const std::exception& caught) {
    const Error error = as_error(caught);
    transport.abort(static_cast<int>(error.code()), error.what());
  }
}

}  // namespace trireme
