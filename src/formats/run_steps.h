// Step folders in another program's run, for use if the file that names the newest step is missing
// or wrong.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace trireme {

// Names of the folders in `run` that contain a complete step, in numerical order.
std::vector<std::string> whole_steps(const fs::path& run, bool (*is_whole)(const fs::path&));

// Content of a file such as latest_checkpointed_iteration.txt, without trailing white space; "" if
// it does not exist.
std::string step_named_in(const fs::path& file);

// Lists complete steps with advice: "whole are iter_0000100 and iter_0000200: trireme convert
// RUN/iter_0000200 NEW_RUN takes the last of them"; or says that there are none.
std::string whole_steps_text(const fs::path& run, const std::vector<std::string>& steps);

}  // namespace trireme
