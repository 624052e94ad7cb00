// Groups of MPI processes with an emulated GPU each.
#pragma once

#include <numeric>

#include "backend/plugin_loader.h"
#include "comm/device_communicator.h"
#include "comm/device_watch.h"

namespace trireme::testing_comm {

inline Device& emulated_gpu() {
  return plugin_device("emulated", {.device = DeviceKind::emulated});
}

// All ranks of a job on one queue, with this much memory for sums in rank order.
struct DeviceRanks {
  explicit DeviceRanks(Transport& job, QueueRole queue = QueueRole::reduce,
                       std::int64_t bytes = 64 << 10)
      : watch(emulated_gpu(), job), staging_bytes(bytes), staging(gpu.allocate(bytes)) {
    std::vector<int> all(static_cast<std::size_t>(job.place().size));
    std::iota(all.begin(), all.end(), 0);
    group = make_device_communicator(
        gpu, watch, job, all, "ranks",
        {.queue = queue, .staging = staging, .staging_bytes = staging_bytes});
  }
  ~DeviceRanks() {
    group.reset();
    gpu.release(staging, staging_bytes);
  }
  DeviceRanks(const DeviceRanks&) = delete;
  DeviceRanks& operator=(const DeviceRanks&) = delete;

  Device& gpu = emulated_gpu();
  DeviceWatch watch;
  std::int64_t staging_bytes;
  std::byte* staging;
  std::unique_ptr<Communicator> group;
};

}  // namespace trireme::testing_comm
