// Exports of a GPU's plug-in. Plug-ins are loaded when a run asks for their device, so that the
// program starts without their libraries.
#pragma once

#include <vector>

#include "backend/device.h"
#include "backend/machine_report.h"

namespace trireme {

// Changes with every change of what passes between program and plug-in: Device, Queue, the tables
// of kernels and their structs.
inline constexpr int plugin_version = 8;

inline constexpr const char* plugin_version_symbol = "trireme_device_version";
inline constexpr const char* plugin_open_symbol = "trireme_device_open";
using PluginVersion = int (*)();
// Makes the device of that number among those that this process sees, which lives until the process
// ends. Once. Throws Error.
using PluginOpen = Device* (*)(const Target&, int index);
// Starts the GPU's runtime, before MPI if that is needed too, and returns the NUMA node of the host
// that is near to each GPU, -1 where that is not known: as many numbers as this process sees GPUs.
// Throws Error where there is none.
inline constexpr const char* plugin_start_symbol = "trireme_device_start";
using PluginStart = std::vector<int> (*)();
// What there is of GPUs, without making a device.
inline constexpr const char* plugin_report_symbol = "trireme_device_report";
using PluginReport = MachineReport (*)();

}  // namespace trireme
