// Exports of a GPU's plug-in. Plug-ins are loaded when a run asks for their device, so that the
// program starts without their libraries.
#pragma once

#include <vector>

#include "backend/device.h"
#include "backend/machine_report.h"

namespace trireme {

// Changes with every change of what passes between program and plug-in: Device, Queue, the tables
// of kernels and their structs.
inline constexpr int plugin_version = 13;

inline constexpr const char* plugin_version_symbol = "trireme_device_version";
inline constexpr const char* plugin_open_symbol = "trireme_device_open";
using PluginVersion = int (*)();
// Creates the device with that index among the GPUs visible to this process. It lives until the
// process ends. Call once. Throws Error.
using PluginOpen = Device* (*)(const Target&, int index);
// Starts the GPU's runtime, which must happen before MPI starts if both are used. Returns the
// NUMA node of the host that is closest to each visible GPU, or -1 where unknown. Throws
// Error if there is no GPU.
inline constexpr const char* plugin_start_symbol = "trireme_device_start";
using PluginStart = std::vector<int> (*)();
// Reports on the GPUs without creating a device.
inline constexpr const char* plugin_report_symbol = "trireme_device_report";
using PluginReport = MachineReport (*)();

}  // namespace trireme
