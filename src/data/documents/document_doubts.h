// Warnings about the files of a folder that are read, some of which the user may not have meant.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Sentences about `files`: those in `by_first_bytes`, whose names say nothing; texts among files
// of other forms; files that hold the same bytes; and splits that are read together.
std::vector<std::string> doubts_about(const std::vector<std::string>& files,
                                      const std::vector<std::string>& by_first_bytes);

}  // namespace trireme
