// Adapts NCCL's functions to CollectiveTable. The declarations follow the documentation of NCCL
// 2.13 and RCCL 2.13; if the header is available they are checked against it.
#include "backend/gpu/vendor/nccl.h"

#include <dlfcn.h>

#include "backend/gpu/vendor/libraries.h"
#include "base/error.h"

#if defined(TRIREME_CUDA) && __has_include(<nccl.h>)
#include <nccl.h>
#define TRIREME_NCCL_HEADER 1
#elif defined(TRIREME_HIP) && __has_include(<rccl/rccl.h>)
#include <rccl/rccl.h>
#define TRIREME_NCCL_HEADER 1
#else
#define TRIREME_NCCL_HEADER 0
#endif

namespace trireme::gpu {
namespace {

// Passed by value.
struct UniqueId {
  char bytes[128];
};
enum Type {
  type_u8 = 1,
  type_i32 = 2,
  type_i64 = 4,
  type_f16 = 6,
  type_f32 = 7,
  type_f64 = 8,
  type_bf16 = 9
};
enum Operation { operation_sum = 0, operation_max = 2 };
constexpr int in_progress = 7;

#if TRIREME_NCCL_HEADER
static_assert(sizeof(ncclUniqueId) == sizeof(UniqueId));
static_assert(int{ncclUint8} == type_u8 && int{ncclInt32} == type_i32 &&
              int{ncclInt64} == type_i64);
static_assert(int{ncclFloat16} == type_f16 && int{ncclFloat32} == type_f32);
static_assert(int{ncclFloat64} == type_f64 && int{ncclBfloat16} == type_bf16);
static_assert(int{ncclSum} == operation_sum && int{ncclMax} == operation_max);
static_assert(int{ncclInProgress} == in_progress && int{ncclSuccess} == 0);
#endif

struct Library {
  int (*GetVersion)(int*);
  const char* (*GetErrorString)(int);
  int (*GetUniqueId)(UniqueId*);
  int (*CommInitRank)(void**, int, UniqueId, int);
  int (*CommDestroy)(void*);
  int (*CommAbort)(void*);
  int (*CommGetAsyncError)(void*, int*);
  int (*GroupStart)();
  int (*GroupEnd)();
  int (*AllReduce)(const void*, void*, std::size_t, int, int, void*, void*);
  int (*ReduceScatter)(const void*, void*, std::size_t, int, int, void*, void*);
  int (*AllGather)(const void*, void*, std::size_t, int, void*, void*);
  int (*Broadcast)(const void*, void*, std::size_t, int, int, void*, void*);
  int (*Send)(const void*, std::size_t, int, int, void*, void*);
  int (*Recv)(void*, std::size_t, int, int, void*, void*);
  NcclDevice device;
  const char* vendor;
};
Library nccl;

// Returns false if the library lacks the function, named in `problem`.
template <class Function>
bool find(void* handle, const char* name, Function& function, std::string& problem) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (!function) problem = std::string("it has no ") + name;
  return function;
}

int type_of(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return type_u8;
    case DType::i32:
      return type_i32;
    case DType::i64:
      return type_i64;
    case DType::f16:
      return type_f16;
    case DType::bf16:
      return type_bf16;
    case DType::f64:
      return type_f64;
    case DType::f32:
      return type_f32;
    case DType::u16:
      break;
  }
  fail("internal error: NCCL has no {}", name_of(dtype));
}

int reduction_of(bool maximum) {
  return maximum ? operation_max : operation_sum;
}

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

std::string name() {
  int version = 0;
  nccl.GetVersion(&version);
  return std::string(nccl.vendor) + " " + std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
}
std::string error_text(int error) {
  return nccl.GetErrorString(error);
}

int make_id(CollectiveId* id) {
  static_assert(sizeof(CollectiveId) == sizeof(UniqueId));
  return nccl.GetUniqueId(reinterpret_cast<UniqueId*>(id));
}
int join(void** communicator, int ranks, const CollectiveId& id, int rank, HostMessages*) {
  nccl.device.use_selected();
  return nccl.CommInitRank(communicator, ranks, reinterpret_cast<const UniqueId&>(id), rank);
}
int destroy(void* communicator) {
  return nccl.CommDestroy(communicator);
}
int abort(void* communicator) {
  return nccl.CommAbort(communicator);
}
int async_error(void* communicator) {
  int error = 0;
  if (const int code = nccl.CommGetAsyncError(communicator, &error)) return code;
  return error == in_progress ? 0 : error;
}
int group_start() {
  return nccl.GroupStart();
}
int group_end() {
  return nccl.GroupEnd();
}

int all_reduce(void* data, std::int64_t count, DType dtype, bool maximum, void* communicator,
               Queue& queue) {
  return nccl.AllReduce(data, data, size(count), type_of(dtype), reduction_of(maximum),
                        communicator, nccl.device.stream_of(queue));
}
int reduce_scatter(const void* src, void* dst, std::int64_t count, DType dtype, bool maximum,
                   void* communicator, Queue& queue) {
  return nccl.ReduceScatter(src, dst, size(count), type_of(dtype), reduction_of(maximum),
                            communicator, nccl.device.stream_of(queue));
}
int all_gather(const void* src, void* dst, std::int64_t count, DType dtype, void* communicator,
               Queue& queue) {
  return nccl.AllGather(src, dst, size(count), type_of(dtype), communicator,
                        nccl.device.stream_of(queue));
}
int broadcast(void* data, std::int64_t count, DType dtype, int root, void* communicator,
              Queue& queue) {
  return nccl.Broadcast(data, data, size(count), type_of(dtype), root, communicator,
                        nccl.device.stream_of(queue));
}
int send(const void* data, std::int64_t count, DType dtype, int peer, void* communicator,
         Queue& queue) {
  return nccl.Send(data, size(count), type_of(dtype), peer, communicator,
                   nccl.device.stream_of(queue));
}
int receive(void* data, std::int64_t count, DType dtype, int peer, void* communicator,
            Queue& queue) {
  return nccl.Recv(data, size(count), type_of(dtype), peer, communicator,
                   nccl.device.stream_of(queue));
}

constexpr CollectiveTable table{.name = name,
                                .error_text = error_text,
                                .make_id = make_id,
                                .join = join,
                                .destroy = destroy,
                                .abort = abort,
                                .async_error = async_error,
                                .group_start = group_start,
                                .group_end = group_end,
                                .all_reduce = all_reduce,
                                .reduce_scatter = reduce_scatter,
                                .all_gather = all_gather,
                                .broadcast = broadcast,
                                .send = send,
                                .receive = receive};

}  // namespace

const FoundLibrary& find_nccl() {
#if defined(TRIREME_HIP)
  constexpr const char* file = "librccl.so.1";
#else
  constexpr const char* file = "libnccl.so.2";
#endif
  static const FoundLibrary found = find_library({file}, search_places(TRIREME_VENDOR_LIBRARIES));
  return found;
}

const CollectiveTable* load_nccl(const FoundLibrary& library, const NcclDevice& device,
                                 std::string& problem) {
  void* const handle = library.handle;
  if (!handle) {
    problem = library.problem;
    return nullptr;
  }
  nccl.device = device;
  nccl.vendor = library.path.find("rccl") == std::string::npos ? "NCCL" : "RCCL";
#define TRIREME_FIND(function) find(handle, "nccl" #function, nccl.function, problem)
  const bool complete =
      TRIREME_FIND(GetVersion) && TRIREME_FIND(GetErrorString) && TRIREME_FIND(GetUniqueId) &&
      TRIREME_FIND(CommInitRank) && TRIREME_FIND(CommDestroy) && TRIREME_FIND(CommAbort) &&
      TRIREME_FIND(CommGetAsyncError) && TRIREME_FIND(GroupStart) && TRIREME_FIND(GroupEnd) &&
      TRIREME_FIND(AllReduce) && TRIREME_FIND(ReduceScatter) && TRIREME_FIND(AllGather) &&
      TRIREME_FIND(Broadcast) && TRIREME_FIND(Send) && TRIREME_FIND(Recv);
#undef TRIREME_FIND
  return complete ? &table : nullptr;
}

}  // namespace trireme::gpu
