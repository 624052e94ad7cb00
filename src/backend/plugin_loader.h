// Finds and loads the plug-in of a GPU.
#pragma once

#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/machine_report.h"

namespace trireme {

// Returns the device of the plug-in libtrireme_<name>.so, which lies next to the program, in the
// lib folder of an installation or in the build tree; `target` is reported as the device's target.
// Loaded once; lives until the process ends. Throws Error with advice if the plug-in is missing,
// cannot be loaded or has another version.
Device& plugin_device(const std::string& name, const Target& target);

// Loads that plug-in and starts the GPU's runtime, like PluginStart. Call once, before or instead
// of plugin_device(); fails in the same way.
std::vector<int> start_plugin(const std::string& name, const Target& target);
// Selects the GPU, among the visible ones, that plugin_device() returns; the default is the first.
void choose_plugin_device(const std::string& name, int index);

// Returns whether the plug-in exists, without loading it.
bool has_plugin(const std::string& name);

// Returns the report of an existing plug-in on the machine's GPUs. Throws Error if it cannot be
// loaded or has another version.
MachineReport plugin_report(const std::string& name);

}  // namespace trireme
