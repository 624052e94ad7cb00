// A communicator over a device's collective library (NCCL, RCCL): operations run on the device's
// queues, and no call blocks the host.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/device.h"
#include "comm/communicator.h"
#include "comm/device_watch.h"
#include "comm/transport.h"

namespace trireme {

struct DeviceGroupOptions {
  // Queue of the operations. Queues other than `compute` run them after all work that is on the
  // compute queue at the call; waiting for them makes the compute queue wait.
  QueueRole queue = QueueRole::compute;
  // Also sums f32 and f64 in the Communicator's order, as bf16 and f16 always are; if false, the
  // library's order applies. Integers are exact either way.
  bool fixed_order = true;
  // Device memory that receives other ranks' parts for sums in rank order; sums that
  // exceed it take several rounds. At least `least_staging` bytes per member; operations
  // of one queue may share it.
  std::byte* staging = nullptr;
  std::int64_t staging_bytes = 0;
};
inline constexpr std::int64_t least_staging = 16;

// Collective call: blocks until all members have called it. The device must have collectives;
// it, the watch and the transport must outlive the communicator. `name`: as in
// Transport::group, which also creates the hosts' group, "<name> on the host", returned by
// on_host(). Work::wait() makes a queue wait, never the host; errors of the device and of the
// library surface in later calls.
std::unique_ptr<Communicator> make_device_communicator(Device& device, DeviceWatch& watch,
                                                       Transport& transport, std::vector<int> ranks,
                                                       const std::string& name,
                                                       const DeviceGroupOptions& options);

}  // namespace trireme
