// Reports of runs of scripts and of their launches.
#pragma once

#include <string>
#include <vector>

#include "importers/script/launch.h"
#include "importers/script/run.h"

namespace trireme::script {

// How the script ended: "it ended with exit code 2".
std::string ending(const ScriptRun& run);

// Refuses (exit code 2) a run that started no training, with what it did instead.
[[noreturn]] void fail_no_launch(const ScriptRun& run, const std::string& name);

// The command that starts as many ranks of `trireme train FILE`.
std::string launch_line(const LaunchSize& size, const std::string& file);

// Launch number `wanted` (from 1; 0: the only one). Refuses (exit code 2) a number that there is
// not, and 0 where there are several, with what they differ in.
const Launch& pick_launch(const std::vector<Launch>& launches, const std::string& name, int wanted);

}  // namespace trireme::script
