// Device memory protected from the host: it has a protection key that only threads running
// emulated work enable (about twenty nanoseconds). On processors without protection keys,
// host accesses go undetected.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::gpu::emulated {

// Returns zeroed whole pages, or null if out of memory.
void* allocate_device_memory(std::size_t bytes);
void release_device_memory(void* memory, std::size_t bytes);
// Size of the device in bytes from TRIREME_EMULATED_MEMORY, "TOTAL" or "TOTAL:TAKEN", where TAKEN
// is in use by other processes; 0: as much as the host provides.
std::int64_t device_memory_limit();
// Free part of it; same as device_memory_limit() without a limit.
std::int64_t device_memory_free();
// Memory accessible to the host and to emulated copies. Copies reject other host memory, because
// with it real ones would block.
void* allocate_pinned(std::size_t bytes);
void release_pinned(void* memory, std::size_t bytes);

enum class Side { device, pinned, host };
Side side_of(const void* p, std::size_t bytes);

bool host_access_is_noticed();

// Grants this thread access to device memory during its lifetime.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace trireme::gpu::emulated
