// Reports on script runs and their launches.
#pragma once

#include <string>
#include <vector>

#include "importers/script/launch.h"
#include "importers/script/run.h"

namespace trireme::script {

// Describes how the script ended: "it ended with exit code 2".
std::string ending(const ScriptRun& run);

// Throws bad_input (exit code 2) for a run without a training, with what it did instead.
[[noreturn]] void fail_no_launch(const ScriptRun& run, const std::string& name);

// Command that starts the same number of ranks of `trireme train FILE`.
std::string launch_line(const LaunchSize& size, const std::string& file);

// Launch number `wanted` (from 1; 0: the only one). Refuses (exit code 2) a number out of range,
// and 0 if there are several, listing how they differ.
const Launch& pick_launch(const std::vector<Launch>& launches, const std::string& name, int wanted);

}  // namespace trireme::script
