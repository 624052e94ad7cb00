// runtime.h on CUDA and HIP.
#include "backend/gpu/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <mutex>

#include "backend/gpu/environment.h"
#include "backend/gpu/machine.h"
#include "backend/gpu/queue.h"
#include "backend/gpu/vendor/matrix_rate.h"
#include "backend/gpu/vendor/nccl.h"
#include "base/error.h"

namespace trireme::gpu::runtime {
namespace {

#if TRIREME_HIP
using Properties = hipDeviceProp_t;
constexpr auto clock_rate = hipDeviceAttributeClockRate;
#else
using Properties = cudaDeviceProp;
constexpr auto clock_rate = cudaDevAttrClockRate;
#endif

// Dynamic plus static shared memory available to a kernel without opt-in.
constexpr std::size_t shared_without_asking = 48 << 10;

#ifndef TRIREME_GPU_ARCHITECTURES
#define TRIREME_GPU_ARCHITECTURES "others"
#endif

#if !TRIREME_HIP
// 13000 is 13.0.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}
#endif

int selected = -1;                       // none yet
thread_local int device_of_thread = -1;  // as last set by us

int current_device() {
  int device = 0;
  GPU_CALL(GetDevice, &device);
  return device;
}

// Opts in to more shared memory than the default, once per kernel and size.
void allow_shared(const void* kernel, std::size_t bytes) {
  static std::mutex mutex;
  static std::map<const void*, std::size_t> allowed;
  const std::lock_guard lock(mutex);
  const auto [known, is_new] = allowed.try_emplace(kernel, 0);
  if (is_new) {
    GPU_API(FuncAttributes) attributes;
    GPU_CALL(FuncGetAttributes, &attributes, kernel);
    known->second =
        shared_without_asking - std::min(attributes.sharedSizeBytes, shared_without_asking);
  }
  if (bytes <= known->second) return;
  GPU_CALL(FuncSetAttribute, kernel, GPU_API(FuncAttributeMaxDynamicSharedMemorySize),
           static_cast<int>(bytes));
  known->second = bytes;
}

void require_device() {
  const std::string problem = why_no_device();
  if (!problem.empty()) fail("{}", problem);
}

}  // namespace

void check(GPU_API(Error_t) code, const char* call) {
  if (code == GPU_API(Success)) return;
  const std::string why = GPU_API(GetErrorString)(code);
  std::size_t free = 0, total = 0;
  if (GPU_API(MemGetInfo)(&free, &total) == GPU_API(Success)) fail("{} failed: {}", call, why);
  // After a fault every call fails until the process ends.
  fail(
      "this process has lost the GPU: {} failed: {}; restart from the last checkpoint, and check "
      "the kernel log of the machine if it happens again",
      call, why);
}

void use_selected() {
  if (device_of_thread == selected) return;
  device_of_thread = selected;
  check(GPU_API(SetDevice)(selected), TRIREME_GPU_TEXT(GPU_API(SetDevice)));
}

DeviceKind kind() {
#if TRIREME_HIP
  return DeviceKind::hip;
#else
  return DeviceKind::cuda;
#endif
}

void prepare() {
  set_environment(driver_settings(kind() == DeviceKind::hip));
}

void start() {
  require_device();
#if TRIREME_HIP
  GPU_CALL(Init, 0);
#endif
}

void select(int device) {
  require_device();
  selected = device;
  use_selected();
}

std::string address(int device) {
  char text[32] = "";
  GPU_CALL(DeviceGetPCIBusId, text, static_cast<int>(sizeof text), device);
  std::string bus = text;
  for (char& c : bus) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return bus;
}
std::string address() {
  return address(current_device());
}

int numa_node(int device) {
  std::ifstream file("/sys/bus/pci/devices/" + address(device) + "/numa_node");
  int node = -1;
  file >> node;
  return file ? node : -1;
}

std::int64_t memory_bytes() {
  std::size_t free = 0, total = 0;
  GPU_CALL(MemGetInfo, &free, &total);
  return static_cast<std::int64_t>(total);
}

std::int64_t free_bytes() {
  std::size_t free = 0, total = 0;
  GPU_CALL(MemGetInfo, &free, &total);
  return static_cast<std::int64_t>(free);
}

double matrix_rate(int device) {
  Properties properties;
  GPU_CALL(GetDeviceProperties, &properties, device);
  int kilohertz = 0;
  GPU_CALL(DeviceGetAttribute, &kilohertz, clock_rate, device);
#if TRIREME_HIP
  const double per_clock = flops_per_clock_of_amd(properties.gcnArchName);
#else
  const double per_clock = flops_per_clock_of_nvidia(properties.major, properties.minor);
#endif
  return per_clock * properties.multiProcessorCount * 1e3 * kilohertz;
}
double matrix_rate() {
  return matrix_rate(current_device());
}

std::string why_no_kernel(const void* kernel) {
  GPU_API(FuncAttributes) attributes;
  use_selected();
  const auto code = GPU_API(FuncGetAttributes)(&attributes, kernel);
  if (code == GPU_API(Success)) return "";
  static_cast<void>(GPU_API(GetLastError)());
  return std::string("this build has no kernels for ") + device_name() + ": it was built for " +
         TRIREME_GPU_ARCHITECTURES + "; build it for this GPU (docs/gpu.md), " +
         GPU_API(GetErrorString)(code);
}

std::string why_no_device() {
  int driver = 0, count = 0;
  const auto driver_code = GPU_API(DriverGetVersion)(&driver);
#if TRIREME_HIP
  // HIP may report its version without a driver; the driver is accessed through this file.
  if (driver_code != hipSuccess || driver == 0 || access("/dev/kfd", F_OK) != 0)
    return "no AMD driver is loaded on this machine";
#else
  if (driver_code != cudaSuccess || driver == 0)
    return "no NVIDIA driver is loaded on this machine";
#endif
  const auto code = GPU_API(GetDeviceCount)(&count);
  if (code == GPU_API(Success) && count > 0) return "";
#if !TRIREME_HIP
  if (code == cudaErrorInsufficientDriver)
    return "the NVIDIA driver is too old: it supports CUDA up to " + version_text(driver) +
           ", but this build requires " + version_text(CUDART_VERSION / 1000 * 1000) +
           "; install a newer driver, or build with an older CUDA";
#endif
  static_cast<void>(GPU_API(GetLastError)());
  return std::string("no GPU is visible to this process: ") +
         (code == GPU_API(Success) ? "the driver reports none" : GPU_API(GetErrorString)(code));
}

int device_count() {
  int count = 0;
  GPU_CALL(GetDeviceCount, &count);
  return count;
}

std::string device_name() {
  Properties properties;
  GPU_CALL(GetDeviceProperties, &properties, current_device());
  return properties.name;
}

int wave_width_of_device() {
  static const int width = [] {
    Properties properties;
    GPU_CALL(GetDeviceProperties, &properties, current_device());
    return properties.warpSize;
  }();
  return width;
}

std::string device_signature() {
  int driver = 0, runtime = 0;
  GPU_CALL(DriverGetVersion, &driver);
  GPU_CALL(RuntimeGetVersion, &runtime);
  return device_name() + ", driver " + std::to_string(driver) + ", runtime " +
         std::to_string(runtime);
}

void* allocate(std::int64_t bytes) {
  void* memory = nullptr;
  use_selected();
  const auto code = GPU_API(Malloc)(&memory, static_cast<std::size_t>(bytes));
  if (code == GPU_API(ErrorMemoryAllocation)) {
    static_cast<void>(GPU_API(GetLastError)());  // else the next call would report it
    return nullptr;
  }
  check(code, TRIREME_GPU_TEXT(GPU_API(Malloc)));
  return memory;
}
// Ignores errors: release may be called while an error, already reported, ends the run.
void release(void* memory, std::int64_t) {
  static_cast<void>(GPU_API(Free)(memory));
}

void* allocate_pinned(std::int64_t bytes) {
  void* memory = nullptr;
  const auto size = static_cast<std::size_t>(bytes);
  use_selected();
#if TRIREME_HIP
  const auto code = hipHostMalloc(&memory, size, 0);
#else
  const auto code = cudaMallocHost(&memory, size);
#endif
  if (code == GPU_API(Success)) return memory;
  static_cast<void>(GPU_API(GetLastError)());
  return nullptr;
}
void release_pinned(void* memory, std::int64_t) {
#if TRIREME_HIP
  static_cast<void>(hipHostFree(memory));
#else
  static_cast<void>(cudaFreeHost(memory));
#endif
}

// Non-blocking streams: they wait only for explicit events.
Stream make_stream(bool urgent) {
  static const bool checked = (require_device(), true);
  static_cast<void>(checked);
  int least = 0, greatest = 0;
  GPU_CALL(DeviceGetStreamPriorityRange, &least, &greatest);
  Stream stream = nullptr;
  GPU_CALL(StreamCreateWithPriority, &stream, GPU_API(StreamNonBlocking),
           urgent ? greatest : least);
  return stream;
}
void destroy(Stream stream) {
  static_cast<void>(GPU_API(StreamDestroy)(stream));
}
Event make_event() {
  Event event = nullptr;
  GPU_CALL(EventCreateWithFlags, &event, GPU_API(EventDisableTiming));
  return event;
}
Event make_timed_event() {
  Event event = nullptr;
  GPU_CALL(EventCreate, &event);
  return event;
}
double seconds_between(Event begin, Event end) {
  float milliseconds = 0;
  GPU_CALL(EventElapsedTime, &milliseconds, begin, end);
  return 1e-3 * milliseconds;
}
void destroy(Event event) {
  static_cast<void>(GPU_API(EventDestroy)(event));
}

void copy(void* dst, const void* src, std::int64_t bytes, Stream stream) {
  GPU_CALL(MemcpyAsync, dst, src, static_cast<std::size_t>(bytes), GPU_API(MemcpyDefault), stream);
}
void fill(void* dst, std::uint8_t byte, std::int64_t bytes, Stream stream) {
  GPU_CALL(MemsetAsync, dst, byte, static_cast<std::size_t>(bytes), stream);
}
void record(Event event, Stream stream) {
  GPU_CALL(EventRecord, event, stream);
}
void wait(Event event, Stream stream) {
  GPU_CALL(StreamWaitEvent, stream, event, 0);
}
void synchronize(Stream stream) {
  GPU_CALL(StreamSynchronize, stream);
}
void synchronize(Event event) {
  GPU_CALL(EventSynchronize, event);
}
bool has_passed(Event event) {
  use_selected();
  const auto code = GPU_API(EventQuery)(event);
  if (code == GPU_API(ErrorNotReady)) {
    // Otherwise a library that checks after its next call would take it for its own error.
    static_cast<void>(GPU_API(GetLastError)());
    return false;
  }
  check(code, TRIREME_GPU_TEXT(GPU_API(EventQuery)));
  return true;
}

bool make_progress(Event event) {
  return has_passed(event);
}

const CollectiveTable* collectives(std::string& problem) {
  const auto stream = [](Queue& queue) -> void* { return stream_of(queue); };
  static std::string why;
  static const CollectiveTable* const table = load_nccl(find_nccl(), {stream, use_selected}, why);
  problem = why;
  return table;
}

void launch(const void* kernel, dim3 blocks, unsigned threads, void** arguments,
            std::size_t shared_bytes, Stream stream) {
  if (shared_bytes > 0) allow_shared(kernel, shared_bytes);
  GPU_CALL(LaunchKernel, kernel, blocks, dim3(threads), arguments, shared_bytes, stream);
}

}  // namespace trireme::gpu::runtime
