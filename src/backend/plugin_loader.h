// Finds and loads the plug-in of a GPU.
#pragma once

#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/machine_report.h"

namespace trireme {

// The device of the plug-in libtrireme_<name>.so, which lies next to the program, in the lib folder
// of an installation or where it was built; `target` is what it shall say that it is. Loaded once;
// lives until the process ends. Throws Error with what to do if the plug-in is missing, cannot be
// loaded or belongs to another version.
Device& plugin_device(const std::string& name, const Target& target);

// Loads that plug-in and starts the GPU's runtime, as PluginStart. Once, before the first call of
// plugin_device() or instead of it; fails in the same way.
std::vector<int> start_plugin(const std::string& name, const Target& target);
// Which of the GPUs that this process sees plugin_device() shall give; the first if nobody says.
void choose_plugin_device(const std::string& name, int index);

// Whether there is a plug-in of that name; it is not loaded.
bool has_plugin(const std::string& name);

// What the plug-in, which exists, says of the machine's GPUs. Throws Error if it cannot be loaded
// or belongs to another version.
MachineReport plugin_report(const std::string& name);

}  // namespace trireme
