// The CUDA runtime functions that the plug-in calls, for a device whose kernels run in the PTX
// interpreter.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "backend/gpu/ptx/cudart/driver.h"
#include "backend/gpu/ptx/cudart/kernels.h"
#include "backend/gpu/ptx/cudart/streams.h"
#include "backend/gpu/ptx/memory.h"

struct CUstream_st {
  std::shared_ptr<trireme::ptx::StreamState> state = std::make_shared<trireme::ptx::StreamState>();
};
struct CUevent_st {
  trireme::ptx::EventState state;
};

namespace {

using namespace trireme::ptx;

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

// Records the last error as CUDA does, also for cudaErrorNotReady, which is not an error.
cudaError_t answer(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}
// Runs body() on a working device; an exception breaks the device, as a kernel's fault does.
template <class Body>
cudaError_t with_device(const Body& body) {
  const std::lock_guard lock(driver_mutex);
  if (const cudaError_t state = driver_state(); state != cudaSuccess) return answer(state);
  try {
    return answer(body());
  } catch (const Refused& refused) {
    return answer(refused.code);
  } catch (const std::exception& error) {
    break_device(cudaErrorLaunchFailure, error.what());
  }
  return answer(driver_state());
}
// The same for calls that wait: a fault may have occurred in between.
template <class Body>
cudaError_t waiting(const Body& body) {
  return with_device([&] {
    body();
    return driver_state();
  });
}

// Pinned memory, keyed by its start.
std::map<const char*, std::size_t>& pinned() {
  static auto* const blocks = new std::map<const char*, std::size_t>;
  return *blocks;
}
// Returns the bytes of device or pinned memory; null for any other memory.
std::byte* bytes_of(const void* p, std::size_t bytes) {
  DeviceMemory& memory = DeviceMemory::instance();
  const auto address = reinterpret_cast<std::uint64_t>(p);
  if (memory.owns(address)) {
    std::byte* const found = memory.range_at(address, bytes);
    if (!found) throw std::runtime_error("a copy or a fill of " + memory.explain(address, bytes));
    return found;
  }
  const char* const at = static_cast<const char*>(p);
  auto next = pinned().upper_bound(at);
  if (next != pinned().begin()) {
    const auto& [begin, size] = *--next;
    if (at + bytes <= begin + size) return reinterpret_cast<std::byte*>(const_cast<char*>(at));
  }
  throw std::runtime_error("an asynchronous copy of host memory that is not pinned");
}

// Applies the limit of the environment variable.
DeviceMemory& device_memory() {
  DeviceMemory& memory = DeviceMemory::instance();
  static const bool limited =
      (memory.set_limit(static_cast<std::size_t>(
           setting("TRIREME_PTX_MEMORY", static_cast<std::int64_t>(memory.limit())))),
       true);
  static_cast<void>(limited);
  return memory;
}

void count_launch() {
  static std::int64_t launches = 0;
  if (++launches == setting("TRIREME_PTX_LOST_AT", 0)) break_device(cudaErrorECCUncorrectable, "");
  if (driver_state() != cudaSuccess) throw Refused{driver_state()};
}

}  // namespace

// Tests change the order of threads through this same name in every plug-in.
extern "C" __attribute__((visibility("default"))) void trireme_emulated_thread_order(
    std::uint64_t seed) {
  const std::lock_guard lock(driver_mutex);
  thread_order = seed;
}

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = static_cast<int>(setting("TRIREME_PTX_DRIVER", 13000));
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return with_device([&] {
    *count = static_cast<int>(setting("TRIREME_PTX_DEVICES", 1));
    return cudaSuccess;
  });
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return with_device([] { return cudaSuccess; });
}
cudaError_t cudaSetDevice(int device) {
  return with_device([&] {
    if (device < 0 || device >= setting("TRIREME_PTX_DEVICES", 1)) return cudaErrorInvalidDevice;
    current_device = device;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  return with_device([&] {
    *properties = {};
    std::strcpy(properties->name, "PTX interpreter");
    properties->major = 8;
    properties->totalGlobalMem = device_memory().limit();
    properties->multiProcessorCount = 1;
    properties->warpSize = 32;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  return with_device([&] {
    std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02X:00.0", device + 1);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  return with_device([&] {
    *can = 1;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return with_device([] { return cudaSuccess; });
}
const char* cudaGetErrorString(cudaError_t code) {
  const std::lock_guard lock(driver_mutex);
  return error_text(code);
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return last_error;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return with_device([&] {
    *memory = device_memory().allocate(bytes);
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}
cudaError_t cudaFree(void* memory) {
  return with_device([&] {
    return !memory || DeviceMemory::instance().release(memory) ? cudaSuccess
                                                               : cudaErrorInvalidValue;
  });
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return with_device([&] {
    *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!*memory) return cudaErrorMemoryAllocation;
    pinned()[static_cast<char*>(*memory)] = bytes;
    return cudaSuccess;
  });
}
cudaError_t cudaFreeHost(void* memory) {
  return with_device([&] {
    if (memory && pinned().erase(static_cast<char*>(memory)) == 0) return cudaErrorInvalidValue;
    std::free(memory);
    return cudaSuccess;
  });
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return with_device([&] {
    *total = device_memory().limit();
    *free = *total - device_memory().used();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return with_device([&] {
    *stream = new CUstream_st;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return with_device([] { return cudaSuccess; });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return waiting([&] {
    run_all(*stream->state);
    delete stream;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return waiting([&] { run_all(*stream->state); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return waiting([&] { wait_for(*stream->state, event->state); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return with_device([&] {
    *event = new CUevent_st;
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}
// An interpreter cannot measure speed: every interval is one millisecond.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return with_device([] { return cudaSuccess; });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return waiting([&] { delete event; });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return waiting([&] { event->state = {stream->state, stream->state->enqueued}; });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return waiting([&] {
    if (event->state.stream) run_until(*event->state.stream, event->state.position);
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_device([&] {
    if (has_passed(event->state)) return cudaSuccess;
    // A real device makes progress by itself: the next query finds it done.
    run_until(*event->state.stream, event->state.position);
    return cudaErrorNotReady;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return waiting([&] {
    bytes_of(to, bytes), bytes_of(from, bytes);
    enqueue(*stream->state,
            [=] { std::memmove(bytes_of(to, bytes), bytes_of(from, bytes), bytes); });
  });
}
// All devices share one memory: a copy between two of them is a plain copy.
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}
cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t stream) {
  return waiting([&] {
    bytes_of(to, bytes);
    enqueue(*stream->state, [=] { std::memset(bytes_of(to, bytes), byte, bytes); });
  });
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return with_device([&] {
    if (!is_kernel(function)) return cudaErrorInvalidDeviceFunction;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorInvalidValue;
    return allow_shared_bytes(function, value) ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return with_device([&] {
    *attributes = {};
    if (!is_kernel(function) || setting("TRIREME_PTX_ARCHITECTURE", 80) < 80)
      return cudaErrorNoKernelImageForDevice;
    attributes->sharedSizeBytes = static_shared_bytes(function);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = static_cast<int>(setting("TRIREME_PTX_KILOHERTZ", 1));
  return with_device([] { return cudaSuccess; });
}
// Reports an earlier pending error as its own, as vendor libraries do after their launches.
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 threads, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  if (last_error != cudaSuccess) return last_error;
  return waiting([&] {
    auto work = prepare_launch(function, grid, threads, arguments, shared_bytes);
    enqueue(*stream->state, [work = std::move(work)] {
      count_launch();
      work();
    });
  });
}
}
