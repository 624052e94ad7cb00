// `trireme plan --search`: the layouts that a machine trains a model fastest with.
#pragma once

#include <string>

#include "config/config.h"
#include "plan/machine.h"
#include "plan/search_answer.h"

namespace trireme::cli {

struct SearchOutput {
  std::string pictures;  // folder, or ""
  bool json = false;
};

// Prints the answer; `config` and the errors are those of answer_search().
void run_search(const Config& config, const Machine& machine, const SearchRequest& request,
                const SearchOutput& output);

// Writes the pictures of a layout on a machine into a folder, which is made: memory, time and
// schedule. `limit`: bytes of a rank, or 0.
void write_pictures(const Config& config, int ranks, const Machine& machine, std::int64_t limit,
                    const std::string& folder);

}  // namespace trireme::cli
