// A communicator over a device's library of collectives (NCCL, RCCL): operations are work of the
// device's queues, and no call stops the host.
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
  // Queue of its operations. Queues other than `compute` run them after everything that the compute
  // queue holds when they are called; waiting for them makes the compute queue wait.
  QueueRole queue = QueueRole::compute;
  // Whether sums of f32 and f64 have the Communicator's order too, as those of bf16 and f16 always
  // have; if not, they have the library's. Integers are exact in either.
  bool fixed_order = true;
  // Device memory in which parts of other ranks arrive that are added in the order of ranks: larger
  // sums take several turns. At least `least_staging` bytes for each member; operations of one
  // queue may share it.
  std::byte* staging = nullptr;
  std::int64_t staging_bytes = 0;
};
inline constexpr std::int64_t least_staging = 16;

// All members together; waits until all have called it. The device has collectives; it, the watch
// and the transport outlive the communicator. `name`: as Transport::group, which also makes a group
// of the hosts, "<name> on the host", that on_host() gives. A part that waits for a queue (in place
// of Work::wait() a queue waits, never the host) makes errors of the device and of the library
// appear in later calls.
std::unique_ptr<Communicator> make_device_communicator(Device& device, DeviceWatch& watch,
                                                       Transport& transport, std::vector<int> ranks,
                                                       const std::string& name,
                                                       const DeviceGroupOptions& options);

}  // namespace trireme
