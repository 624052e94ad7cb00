// The MPI wire: non-blocking point-to-point messages of MPI 3, and nothing specific to one library.
#include "comm/mpi/plugin.h"

#include <mpi.h>
#include <sched.h>

#include <cstring>
#include <exception>
#include <list>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "base/error.h"
#include "comm/wire.h"

namespace trireme {
namespace {

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("{} failed: {}", what, text);
}

// Requests are a pointer in Open MPI and a number in MPICH; both fit.
static_assert(sizeof(MPI_Request) <= sizeof(Wire::Request::bits));

Wire::Request pack(MPI_Request request) {
  Wire::Request packed;
  std::memcpy(&packed.bits, &request, sizeof(MPI_Request));  // NOLINT: a pointer, maybe
  return packed;
}

MPI_Request unpack(Wire::Request packed) {
  MPI_Request request;
  std::memcpy(&request, &packed.bits, sizeof(MPI_Request));  // NOLINT: a pointer, maybe
  return request;
}

// Errors come back as codes, so that messages can give a name and a place.
MPI_Comm with_error_codes(MPI_Comm comm) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

MPI_Comm duplicate_of_world() {
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  return with_error_codes(copy);
}

// Processors that at least one of these processes may run on.
int processors_of(MPI_Comm node) {
  cpu_set_t own, all;
  CPU_ZERO(&own);
  CPU_ZERO(&all);
  sched_getaffinity(0, sizeof own, &own);
  check(MPI_Allreduce(&own, &all, sizeof own, MPI_BYTE, MPI_BOR, node), "MPI_Allreduce");
  const int count = CPU_COUNT(&all);
  return count > 0 ? count : static_cast<int>(std::thread::hardware_concurrency());
}

Place discover_place() {
  Place place;
  MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &place.size);
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
        "MPI_Comm_split_type");
  MPI_Comm_rank(node, &place.local_rank);
  MPI_Comm_size(node, &place.local_size);
  place.local_processors = processors_of(node);
  MPI_Comm_free(&node);
  char name[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  MPI_Get_processor_name(name, &length);
  place.host.assign(name, length);
  return place;
}

class MpiWire final : public Wire {
 public:
  MpiWire() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED) {
      fail(
          "this MPI library allows calls from the main thread only (level {}); trireme needs "
          "MPI_THREAD_SERIALIZED: build it with thread support",
          provided);
    }
    with_error_codes(MPI_COMM_WORLD);
    place_ = discover_place();
    contexts_.push_back(duplicate_of_world());
    control_ = duplicate_of_world();
    listen();
  }

  ~MpiWire() override {
    if (!everybody_left_) return;
    MPI_Cancel(&listening_);
    MPI_Wait(&listening_, MPI_STATUS_IGNORE);
    for (Letter& letter : letters_) MPI_Wait(&letter.request, MPI_STATUS_IGNORE);
    for (MPI_Comm& comm : contexts_) MPI_Comm_free(&comm);
    MPI_Comm_free(&control_);
    MPI_Finalize();
  }

  const Place& place() const override { return place_; }

  Context open_context(const std::vector<int>& world_ranks, int key) override {
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
    check(MPI_Group_incl(all, static_cast<int>(world_ranks.size()), world_ranks.data(), &members),
          "MPI_Group_incl");
    check(MPI_Comm_create_group(MPI_COMM_WORLD, members, key, &comm), "MPI_Comm_create_group");
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    contexts_.push_back(with_error_codes(comm));
    return static_cast<Context>(contexts_.size()) - 1;
  }

  Request send(const void* data, std::size_t bytes, int peer, Context context, int tag) override {
    MPI_Request request;
    const auto start = synchronous_ ? MPI_Issend : MPI_Isend;
    check(start(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, contexts_[context], &request),
          "MPI_Isend");
    return pack(request);
  }

  Request receive(void* data, std::size_t bytes, int peer, Context context, int tag) override {
    MPI_Request request;
    check(
        MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, contexts_[context], &request),
        "MPI_Irecv");
    return pack(request);
  }

  bool test(Request& packed) override {
    MPI_Request request = unpack(packed);
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "a transfer");
    packed = pack(request);
    return done;
  }

  void send_control(const ControlMessage& message, int peer) override {
    std::erase_if(letters_, [](Letter& letter) {
      int done = 0;
      MPI_Test(&letter.request, &done, MPI_STATUS_IGNORE);
      return done;
    });
    Letter& letter = letters_.emplace_back(Letter{message, MPI_REQUEST_NULL});
    check(MPI_Isend(&letter.message, sizeof message, MPI_BYTE, peer, 0, control_, &letter.request),
          "MPI_Isend");
  }

  bool receive_control(ControlMessage& message, int& peer) override {
    int done = 0;
    MPI_Status status;
    check(MPI_Test(&listening_, &done, &status), "a control message");
    if (!done) return false;
    message = heard_;
    peer = status.MPI_SOURCE;
    listen();
    return true;
  }

  void leave() override { everybody_left_ = true; }

  void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  struct Letter {
    ControlMessage message;
    MPI_Request request;
  };

  void listen() {
    check(MPI_Irecv(&heard_, sizeof heard_, MPI_BYTE, MPI_ANY_SOURCE, 0, control_, &listening_),
          "MPI_Irecv");
  }

  Place place_;
  bool everybody_left_ = false;
  // For tests: no send is over before its receive has begun, as between GPUs and for large messages
  // it never is.
  const bool synchronous_ = std::getenv("TRIREME_SYNCHRONOUS_SENDS") != nullptr;
  std::vector<MPI_Comm> contexts_;
  MPI_Comm control_ = MPI_COMM_NULL;
  ControlMessage heard_{};
  MPI_Request listening_ = MPI_REQUEST_NULL;
  std::list<Letter> letters_;  // addresses must stay
};

// "Open MPI v4.1.4", "MPICH 4.0.2": the first part of MPI's description of itself, which may
// continue with a page about its build.
std::string library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::istringstream words(std::string(text, std::strcspn(text, "\n,")));
  std::string name;
  for (std::string word; words >> word;) {
    if (word != "Version:") name += (name.empty() ? "" : " ") + word;
  }
  return name;
}

}  // namespace
}  // namespace trireme

extern "C" {

__attribute__((visibility("default"))) int trireme_wire_interface_version() {
  return trireme::wire_interface_version;
}

__attribute__((visibility("default"))) const char* trireme_mpi_library() {
  static const std::string name = trireme::library_name();
  return name.c_str();
}

__attribute__((visibility("default"))) trireme::Wire* trireme_open_mpi_wire() {
  return new trireme::MpiWire;
}
}
