// The folders of steps in the folder of a run of another program, where the file that names the
// newest one is missing or wrong.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace trireme {

// The names of the folders in `run` that hold a whole step, in the order of the numbers in them.
std::vector<std::string> whole_steps(const fs::path& run, bool (*is_whole)(const fs::path&));

// What a file such as latest_checkpointed_iteration.txt names, without the white space at its end;
// "" where it is not there.
std::string step_named_in(const fs::path& file);

// "whole are iter_0000100 and iter_0000200: trireme convert RUN/iter_0000200 NEW_RUN takes the last
// of them"; or that there is none.
std::string whole_steps_text(const fs::path& run, const std::vector<std::string>& steps);

}  // namespace trireme
