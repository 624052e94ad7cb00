// report.h on CUDA and HIP.
#include "backend/gpu/report.h"

#include <algorithm>

#include "backend/gpu/libraries/open_library.h"
#include "backend/gpu/machine.h"
#include "backend/gpu/runtime.h"
#include "backend/gpu/vendor/nccl.h"
#include "backend/gpu/vendor/slowed.h"

namespace trireme::gpu {
namespace {

#if TRIREME_HIP
using Properties = hipDeviceProp_t;
#else
using Properties = cudaDeviceProp;
#endif

constexpr std::size_t link_bytes = 64 << 20;
constexpr int link_turns = 4;

// CUDA's 13000 is 13.0; HIP's version numbers have two more digits.
std::string version_text(int version) {
#if TRIREME_HIP
  return std::to_string(version / 10'000'000) + "." + std::to_string(version / 100'000 % 100);
#else
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
#endif
}

GpuReport report_of(int device) {
  Properties properties;
  GPU_CALL(GetDeviceProperties, &properties, device);
  GPU_CALL(SetDevice, device);
  std::size_t free = 0, total = 0;
  GPU_CALL(MemGetInfo, &free, &total);
  GpuReport gpu;
  gpu.name = properties.name;
#if TRIREME_HIP
  gpu.architecture = properties.gcnArchName;
#else
  gpu.architecture = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
#endif
  gpu.bus = runtime::address(device);
  gpu.numa_node = runtime::numa_node(device);
  gpu.memory = static_cast<std::int64_t>(total);
  gpu.free = static_cast<std::int64_t>(free);
  gpu.slowed_by = slowed_by(gpu.bus);
  gpu.without_error_correction = properties.ECCEnabled == 0;
  return gpu;
}

// Memory, a stream and two events on one GPU, owned by the object.
class End {
 public:
  explicit End(int device) : device_(device) {
    GPU_CALL(SetDevice, device);
    GPU_CALL(Malloc, &memory_, link_bytes);
    GPU_CALL(StreamCreateWithFlags, &stream_, GPU_API(StreamNonBlocking));
    GPU_CALL(EventCreate, &begin_);
    GPU_CALL(EventCreate, &end_);
  }
  ~End() {
    static_cast<void>(GPU_API(SetDevice)(device_));
    static_cast<void>(GPU_API(EventDestroy)(end_));
    static_cast<void>(GPU_API(EventDestroy)(begin_));
    static_cast<void>(GPU_API(StreamDestroy)(stream_));
    static_cast<void>(GPU_API(Free)(memory_));
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  double gigabytes_per_second_to(const End& other) const {
    GPU_CALL(SetDevice, device_);
    copy_to(other);  // warm-up: the first copy opens the path
    GPU_CALL(EventRecord, begin_, stream_);
    for (int turn = 0; turn < link_turns; ++turn) copy_to(other);
    GPU_CALL(EventRecord, end_, stream_);
    GPU_CALL(EventSynchronize, end_);
    float milliseconds = 0;
    GPU_CALL(EventElapsedTime, &milliseconds, begin_, end_);
    return static_cast<double>(link_bytes) * link_turns / milliseconds / 1e6;
  }

 private:
  void copy_to(const End& other) const {
    GPU_CALL(MemcpyPeerAsync, other.memory_, other.device_, memory_, device_, link_bytes, stream_);
  }

  int device_;
  void* memory_ = nullptr;
  runtime::Stream stream_ = nullptr;
  runtime::Event begin_ = nullptr, end_ = nullptr;
};

LinkReport measure(int from, int to) {
  LinkReport link{.from = from, .to = to};
  int direct = 0;
  GPU_CALL(DeviceCanAccessPeer, &direct, from, to);
  link.direct = direct != 0;
  const End a(from), b(to);
  if (link.direct) {
    GPU_CALL(SetDevice, from);
    const auto code = GPU_API(DeviceEnablePeerAccess)(to, 0);
    if (code != GPU_API(ErrorPeerAccessAlreadyEnabled)) runtime::check(code, "enabling a peer");
    static_cast<void>(GPU_API(GetLastError)());
  }
  link.gigabytes_per_second = a.gigabytes_per_second_to(b);
  return link;
}

// A missing collective library is no fault on a machine with one GPU.
LibraryReport collectives(int gpus) {
  LibraryReport library{.what = "collectives", .instead = "MPI by way of the host's memory"};
  if (const CollectiveTable* const table = runtime::collectives(library.problem)) {
    library.version = table->name();
    library.path = find_nccl().path;
  }
  library.is_fault = library.version.empty() && gpus > 1;
  return library;
}

}  // namespace

MachineReport report() {
  MachineReport report;
  int driver = 0, runtime_version = 0;
  static_cast<void>(GPU_API(DriverGetVersion)(&driver));
  static_cast<void>(GPU_API(RuntimeGetVersion)(&runtime_version));
  report.driver = "driver " + (driver == 0 ? std::string("none") : version_text(driver)) +
                  ", runtime " + version_text(runtime_version);
  report.problem = runtime::why_no_device();
  if (!report.problem.empty()) return report;
  const int count = runtime::device_count();
  for (int i = 0; i < count; ++i) report.gpus.push_back(report_of(i));
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from != to) report.links.push_back(measure(from, to));
    }
  }
  const OpenedLibrary opened = open_library();
  report.libraries.push_back(
      {.what = "matrix products",
       .version = opened.library ? opened.library->name() : "",
       .instead = "the own kernel",
       .path = opened.path,
       .problem = opened.note,
       .is_fault = opened.is_missing && runtime::matrix_rate(0) > runtime::large_matrix_rate});
  report.libraries.push_back(collectives(count));
  return report;
}

}  // namespace trireme::gpu
