// Wraps the MPI part, turning its errors into exceptions.
#include "comm/mpi_wire.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <type_traits>

#include "base/error.h"
#include "comm/alarm_limit.h"
#include "comm/mpi/trireme_mpi.h"

namespace trireme {
namespace {

// Control messages are sent as raw bytes.
static_assert(std::is_trivially_copyable_v<ControlMessage>);

void check(const char* problem) {
  if (problem) fail("{}", problem);
}

// Time for MPI_Finalize after all ranks are done. Some libraries occasionally hang there.
constexpr double longest_end_s = 60;

// Element of the plugin's array of host names.
struct Host {
  char name[TRIREME_MPI_HOST_BYTES];
};

class MpiWire final : public Wire {
 public:
  MpiWire(const ::trireme_mpi_functions& mpi, const BeforeOthers& before) : mpi_(mpi) {
    trireme_mpi_place place{};
    check(mpi_.begin(&place));
    place_ = {.rank = place.rank, .size = place.size, .host = place.host};
    if (before) before(*this);
    std::vector<Host> hosts(static_cast<std::size_t>(place.size));
    check(mpi_.open(sizeof(ControlMessage), &place, &hosts.data()->name));
    place_ = {place.rank,       place.size, place.local_rank,
              place.local_size, place.host, place.local_processors};
    for (const Host& host : hosts) hosts_.emplace_back(host.name);
  }
  ~MpiWire() override {
    std::optional<AlarmLimit> limit;
    if (everybody_left_) {
      limit.emplace(longest_end_s, end_message(), exit_code_);
      limit->end_at_once_on_sigterm();
    }
    mpi_.close(everybody_left_);
  }

  const Place& place() const override { return place_; }
  std::vector<std::string> hosts() const override { return hosts_; }

  Context open_context(const std::vector<int>& world_ranks, int key) override {
    Context context = 0;
    const int count = static_cast<int>(world_ranks.size());
    check(mpi_.open_context(world_ranks.data(), count, key, &context));
    return context;
  }

  Request send(const void* data, std::size_t bytes, int peer, Context context, int tag) override {
    Request request;
    check(mpi_.send(data, bytes, peer, context, tag, &request.bits));
    return request;
  }

  Request receive(void* data, std::size_t bytes, int peer, Context context, int tag) override {
    Request request;
    check(mpi_.receive(data, bytes, peer, context, tag, &request.bits));
    return request;
  }

  bool test(Request& request) override {
    int done = 0;
    check(mpi_.test(&request.bits, &done));
    return done != 0;
  }

  void send_control(const ControlMessage& message, int peer) override {
    check(mpi_.send_control(&message, peer));
  }

  bool receive_control(ControlMessage& message, int& peer) override {
    int arrived = 0;
    check(mpi_.receive_control(&message, &peer, &arrived));
    return arrived != 0;
  }

  void leave() override { everybody_left_ = true; }
  void set_exit_code(int code) override { exit_code_ = code; }

  void abort(int exit_code) override {
    mpi_.abort(exit_code);
    std::_Exit(exit_code);
  }

 private:
  std::string end_message() const {
    return fmt::format(
        "trireme: warning: rank {} ({}): MPI_Finalize did not return within {:.0f} s; all work was "
        "already complete, and this process ends with exit code {}\n",
        place_.rank, place_.host, longest_end_s, exit_code_);
  }

  const ::trireme_mpi_functions& mpi_;
  Place place_;
  std::vector<std::string> hosts_;
  int exit_code_ = 0;
  bool everybody_left_ = false;
};

}  // namespace

std::unique_ptr<Wire> mpi_wire(const ::trireme_mpi_functions& mpi, const BeforeOthers& before) {
  return std::make_unique<MpiWire>(mpi, before);
}

}  // namespace trireme
