// The MPI part: non-blocking point-to-point messages of MPI 3, not specific to any MPI library.
// Needs only C++11 and the header next to it, so that a cluster's mpicxx can build it:
//   mpicxx -std=c++11 -O2 -fPIC -shared -fvisibility=hidden trireme_mpi.cpp -o libtrireme_mpi.so
// The C interface of MPI is enough; the C++ bindings of old libraries stay out.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "trireme_mpi.h"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace mpi_part {
namespace {

// A control message being sent.
struct Letter {
  std::vector<char> message;
  MPI_Request request;
};

struct State {
  std::string problem, library;
  // For tests: no send completes before its receive has started, as is always the case between
  // GPUs and for large messages.
  bool synchronous;
  std::vector<MPI_Comm> contexts;
  MPI_Comm control;
  std::vector<char> heard;
  MPI_Request listening;
  std::list<Letter> letters;  // addresses must be stable
};

State& state() {
  static State all;
  return all;
}

const char* failed(const std::string& what) {
  state().problem = what;
  return state().problem.c_str();
}

const char* result(int code, const char* what) {
  if (code == MPI_SUCCESS) return nullptr;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::string reason(text);  // that of MPICH has several lines
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return failed(std::string(what) + " failed: " + reason);
}

// MPI_Request is a pointer in Open MPI and an int in MPICH; both fit.
static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request of MPI has at most 64 bits");

uint64_t pack(MPI_Request request) {
  uint64_t packed = 0;
  std::memcpy(&packed, &request, sizeof request);
  return packed;
}

MPI_Request unpack(uint64_t packed) {
  MPI_Request request;
  std::memcpy(&request, &packed, sizeof request);
  return request;
}

// Returns errors as codes, so that messages can state a name and a place.
const char* duplicate_of_world(MPI_Comm* copy) {
  const int code = MPI_Comm_dup(MPI_COMM_WORLD, copy);
  if (code == MPI_SUCCESS) MPI_Comm_set_errhandler(*copy, MPI_ERRORS_RETURN);
  return result(code, "MPI_Comm_dup");
}

// Counts the processors that at least one of these processes may run on.
const char* count_processors(MPI_Comm node, int* count) {
  cpu_set_t own, all;
  CPU_ZERO(&own);
  CPU_ZERO(&all);
  sched_getaffinity(0, sizeof own, &own);
  const char* problem =
      result(MPI_Allreduce(&own, &all, sizeof own, MPI_BYTE, MPI_BOR, node), "MPI_Allreduce");
  *count = CPU_COUNT(&all);
  if (*count == 0) *count = static_cast<int>(std::thread::hardware_concurrency());
  return problem;
}

void find_own_place(trireme_mpi_place* place) {
  MPI_Comm_rank(MPI_COMM_WORLD, &place->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &place->size);
  char name[MPI_MAX_PROCESSOR_NAME + 1] = {};
  int length = 0;
  MPI_Get_processor_name(name, &length);
  const std::size_t kept = std::min(std::strlen(name), sizeof place->host - 1);
  std::memcpy(place->host, name, kept);
  place->host[kept] = 0;
}

const char* find_place_on_node(trireme_mpi_place* place) {
  MPI_Comm node = MPI_COMM_NULL;
  const int split =
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  if (const char* problem = result(split, "MPI_Comm_split_type")) return problem;
  MPI_Comm_rank(node, &place->local_rank);
  MPI_Comm_size(node, &place->local_size);
  const char* problem = count_processors(node, &place->local_processors);
  MPI_Comm_free(&node);
  return problem;
}

const char* listen() {
  State& s = state();
  return result(MPI_Irecv(s.heard.data(), static_cast<int>(s.heard.size()), MPI_BYTE,
                          MPI_ANY_SOURCE, 0, s.control, &s.listening),
                "MPI_Irecv");
}

// The first part of MPI's version string, which a page about the build may follow.
const char* library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::istringstream words(std::string(text, std::strcspn(text, "\n,")));
  std::string name;
  for (std::string word; words >> word;) {
    if (word != "Version:") name += (name.empty() ? "" : " ") + word;
  }
  state().library = name;
  return state().library.c_str();
}

const char* begin(trireme_mpi_place* place) {
  State& s = state();
  int provided = 0;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (const char* problem = result(code, "MPI_Init_thread")) return problem;
  if (provided < MPI_THREAD_SERIALIZED) {
    return failed(
        "this MPI library allows calls only from the main thread, but trireme requires "
        "MPI_THREAD_SERIALIZED: build MPI with thread support");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  s.synchronous = std::getenv("TRIREME_SYNCHRONOUS_SENDS") != nullptr;
  s.contexts.assign(1, MPI_COMM_WORLD);
  find_own_place(place);
  return nullptr;
}

const char* gather_hosts(const trireme_mpi_place& place, char (*hosts)[TRIREME_MPI_HOST_BYTES]) {
  const int code = MPI_Allgather(place.host, TRIREME_MPI_HOST_BYTES, MPI_BYTE, hosts,
                                 TRIREME_MPI_HOST_BYTES, MPI_BYTE, state().contexts[0]);
  return result(code, "MPI_Allgather");
}

const char* open(size_t control_bytes, trireme_mpi_place* place,
                 char (*hosts)[TRIREME_MPI_HOST_BYTES]) {
  State& s = state();
  s.heard.resize(control_bytes);
  const char* problem = find_place_on_node(place);
  if (!problem) problem = duplicate_of_world(&s.contexts[0]);
  if (!problem) problem = gather_hosts(*place, hosts);
  if (!problem) problem = duplicate_of_world(&s.control);
  return problem ? problem : listen();
}

void close(int orderly) {
  if (!orderly) return;
  State& s = state();
  MPI_Cancel(&s.listening);
  MPI_Wait(&s.listening, MPI_STATUS_IGNORE);
  for (Letter& letter : s.letters) MPI_Wait(&letter.request, MPI_STATUS_IGNORE);
  for (MPI_Comm& comm : s.contexts) MPI_Comm_free(&comm);
  MPI_Comm_free(&s.control);
  MPI_Finalize();
}

void abort_job(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

const char* open_context(const int* world_ranks, int count, int key, int* context) {
  MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  const char* problem = result(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
  if (problem) return problem;
  problem = result(MPI_Group_incl(all, count, world_ranks, &members), "MPI_Group_incl");
  if (problem) return problem;
  problem =
      result(MPI_Comm_create_group(MPI_COMM_WORLD, members, key, &comm), "MPI_Comm_create_group");
  if (problem) return problem;
  MPI_Group_free(&members);
  MPI_Group_free(&all);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  state().contexts.push_back(comm);
  *context = static_cast<int>(state().contexts.size()) - 1;
  return nullptr;
}

MPI_Comm context_of(int context) {
  return state().contexts[static_cast<std::size_t>(context)];
}

const char* send(const void* data, size_t bytes, int peer, int context, int tag,
                 uint64_t* request) {
  MPI_Request started = MPI_REQUEST_NULL;
  const auto start = state().synchronous ? MPI_Issend : MPI_Isend;
  const int code =
      start(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, context_of(context), &started);
  *request = pack(started);
  return result(code, "MPI_Isend");
}

const char* receive(void* data, size_t bytes, int peer, int context, int tag, uint64_t* request) {
  MPI_Request started = MPI_REQUEST_NULL;
  const int code =
      MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, context_of(context), &started);
  *request = pack(started);
  return result(code, "MPI_Irecv");
}

const char* test(uint64_t* packed, int* done) {
  MPI_Request request = unpack(*packed);
  const int code = MPI_Test(&request, done, MPI_STATUS_IGNORE);
  *packed = pack(request);
  return result(code, "a transfer");
}

const char* send_control(const void* message, int peer) {
  State& s = state();
  s.letters.remove_if([](Letter& letter) {
    int done = 0;
    MPI_Test(&letter.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
  const char* const bytes = static_cast<const char*>(message);
  s.letters.push_back({std::vector<char>(bytes, bytes + s.heard.size()), MPI_REQUEST_NULL});
  Letter& letter = s.letters.back();
  return result(MPI_Isend(letter.message.data(), static_cast<int>(letter.message.size()), MPI_BYTE,
                          peer, 0, s.control, &letter.request),
                "MPI_Isend");
}

const char* receive_control(void* message, int* peer, int* arrived) {
  State& s = state();
  MPI_Status status;
  *arrived = 0;
  const int code = MPI_Test(&s.listening, arrived, &status);
  if (const char* problem = result(code, "a control message")) return problem;
  if (!*arrived) return nullptr;
  std::memcpy(message, s.heard.data(), s.heard.size());
  *peer = status.MPI_SOURCE;
  return listen();
}

}  // namespace
}  // namespace mpi_part

extern "C" __attribute__((visibility("default"))) const struct trireme_mpi_functions* trireme_mpi(
    void) {
  static const struct trireme_mpi_functions functions = {
      TRIREME_MPI_INTERFACE,  mpi_part::library,      mpi_part::begin,
      mpi_part::open,         mpi_part::close,        mpi_part::abort_job,
      mpi_part::open_context, mpi_part::send,         mpi_part::receive,
      mpi_part::test,         mpi_part::send_control, mpi_part::receive_control};
  return &functions;
}
