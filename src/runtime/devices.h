// The device that a configuration names.
#pragma once

#include <vector>

#include "backend/device.h"
#include "comm/transport.h"

namespace trireme {

// Returns the device `kind`, as in run.device: the CPU, or the GPU of a plug-in, which is loaded
// now. TRIREME_WAVE=64 in the environment gives the emulated GPU waves of 64 lanes instead of 32.
// Lives until the process ends. Throws Error if there is no such device.
Device& device_of(DeviceKind kind);

// Loads the plug-in and starts the GPU's runtime; call before MPI starts, as some
// machines require. Returns the NUMA node closest to each visible GPU; empty for the
// CPU. Fails like device_of().
std::vector<int> start_device(DeviceKind kind);
// Selects the GPU that device_of() returns for this rank: the only visible one, else the one with
// the rank's number on its node. `visible`: number of visible GPUs, from start_device(). Rejects
// (exit code 2) more ranks than GPUs.
void choose_device(DeviceKind kind, int visible, const Place& place);
// Rejects (exit code 2), on all ranks alike, ranks that share a GPU.
void check_devices_differ(const Device& device, const Place& place, Communicator& world);

// The target of plans for that kind of device; needs neither device nor plug-in.
Target target_of(DeviceKind kind);

}  // namespace trireme
