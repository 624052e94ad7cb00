// The device that a configuration names.
#pragma once

#include <vector>

#include "backend/device.h"
#include "comm/transport.h"

namespace trireme {

// `kind` as in run.device: the CPU, or the GPU of a plug-in, which is loaded now. TRIREME_WAVE=64
// in the environment gives the emulated GPU waves of 64 lanes instead of 32. Lives until the
// process ends. Throws Error if there is no such device.
Device& device_of(DeviceKind kind);

// Before MPI, which some machines need to be second: loads the plug-in and starts the GPU's
// runtime. Gives the NUMA node near to each GPU that this process sees; none for the CPU. Fails as
// device_of.
std::vector<int> start_device(DeviceKind kind);
// Which GPU device_of() will give to one of the ranks of a node: the only one, if this process sees
// one, else that of the rank's number on its node. `visible`: how many it sees, as start_device().
// Refused (exit code 2): more ranks than GPUs.
void choose_device(DeviceKind kind, int visible, const Place& place);
// Refuses (exit code 2), on all ranks alike, ranks that share a GPU.
void check_devices_differ(const Device& device, const Place& place, Communicator& world);

// The target that plans for such a device use; needs no device and no plug-in.
Target target_of(DeviceKind kind);

}  // namespace trireme
