// A library with NCCL's functions that records how they are called.
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace {

struct UniqueId {
  char bytes[128];
};
char calls[4096];

template <class... Arguments>
int note(const char* format, Arguments... arguments) {
  const std::size_t length = std::strlen(calls);
  std::snprintf(calls + length, sizeof calls - length, format, arguments...);
  return 0;
}

int number(const void* p) {
  return static_cast<int>(reinterpret_cast<std::size_t>(p));
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const char* fake_nccl_calls() {
  return calls;
}
EXPORT int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}
EXPORT const char* ncclGetErrorString(int error) {
  return error == 6 ? "remote process exited or there was a network error" : "no error";
}
EXPORT int ncclGetUniqueId(UniqueId* id) {
  std::memset(id->bytes, 7, sizeof id->bytes);
  return 0;
}
EXPORT int ncclCommInitRank(void** comm, int ranks, UniqueId id, int rank) {
  *comm = reinterpret_cast<void*>(std::size_t{99});
  return note("init %d of %d, id %d %d\n", rank, ranks, id.bytes[0], id.bytes[127]);
}
EXPORT int ncclCommDestroy(void* comm) {
  return note("destroy %d\n", number(comm));
}
EXPORT int ncclCommAbort(void* comm) {
  return note("abort %d\n", number(comm));
}
EXPORT int ncclCommGetAsyncError(void*, int* error) {
  *error = 6;
  return 0;
}
EXPORT int ncclGroupStart() {
  return note("{\n");
}
EXPORT int ncclGroupEnd() {
  return note("}\n");
}
EXPORT int ncclAllReduce(const void* src, void* dst, std::size_t count, int type, int op,
                         void* comm, void* stream) {
  return note("all_reduce %d %d x%zu type %d op %d comm %d stream %d\n", number(src), number(dst),
              count, type, op, number(comm), number(stream));
}
EXPORT int ncclReduceScatter(const void* src, void* dst, std::size_t count, int type, int op,
                             void* comm, void* stream) {
  return note("reduce_scatter %d %d x%zu type %d op %d comm %d stream %d\n", number(src),
              number(dst), count, type, op, number(comm), number(stream));
}
EXPORT int ncclAllGather(const void* src, void* dst, std::size_t count, int type, void* comm,
                         void* stream) {
  return note("all_gather %d %d x%zu type %d comm %d stream %d\n", number(src), number(dst), count,
              type, number(comm), number(stream));
}
EXPORT int ncclBroadcast(const void* src, void* dst, std::size_t count, int type, int root,
                         void* comm, void* stream) {
  return note("broadcast %d %d x%zu type %d root %d comm %d stream %d\n", number(src), number(dst),
              count, type, root, number(comm), number(stream));
}
EXPORT int ncclSend(const void* src, std::size_t count, int type, int peer, void* comm,
                    void* stream) {
  return note("send %d x%zu type %d peer %d comm %d stream %d\n", number(src), count, type, peer,
              number(comm), number(stream));
}
EXPORT int ncclRecv(void* dst, std::size_t count, int type, int peer, void* comm, void* stream) {
  return note("recv %d x%zu type %d peer %d comm %d stream %d\n", number(dst), count, type, peer,
              number(comm), number(stream));
}
