// What a plug-in of a GPU exports. Plug-ins are loaded when a run asks for their device, so that
// the program starts where none of their libraries is installed.
#pragma once

#include "backend/device.h"
#include "backend/machine_report.h"

namespace trireme {

// Changes with every change of what passes between program and plug-in: Device, Queue, the tables
// of kernels and their structs.
inline constexpr int plugin_version = 3;

inline constexpr const char* plugin_version_symbol = "trireme_device_version";
inline constexpr const char* plugin_open_symbol = "trireme_device_open";
using PluginVersion = int (*)();
// Makes the device, which lives until the process ends. Throws Error.
using PluginOpen = Device* (*)(const Target&);
// What there is of GPUs, without making a device.
inline constexpr const char* plugin_report_symbol = "trireme_device_report";
using PluginReport = MachineReport (*)();

}  // namespace trireme
