// Device memory that the host cannot touch: it lies under a protection key that only a thread which
// runs emulated work opens (about twenty nanoseconds). Where the processor has no such keys, host
// accesses are not noticed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::gpu::emulated {

// Zeroed, whole pages; null if there is none left.
void* allocate_device_memory(std::size_t bytes);
void release_device_memory(void* memory, std::size_t bytes);
// What TRIREME_EMULATED_MEMORY says that the device has, in bytes, "TOTAL" or "TOTAL:TAKEN", where
// others have taken some of it already; 0: as much as the host gives.
std::int64_t device_memory_limit();
// What of that is free; as device_memory_limit() where there is no limit.
std::int64_t device_memory_free();
// Memory that the host and emulated copies may touch. Other memory of the host is refused in
// copies, as it would make real ones wait.
void* allocate_pinned(std::size_t bytes);
void release_pinned(void* memory, std::size_t bytes);

enum class Side { device, pinned, host };
Side side_of(const void* p, std::size_t bytes);

bool host_access_is_noticed();

// While it lives this thread may touch device memory.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace trireme::gpu::emulated
