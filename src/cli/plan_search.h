// `trireme plan --search`: the fastest layouts for training a model on a machine.
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

// Prints the answer; for `config` and errors see answer_search().
void run_search(const Config& config, const Machine& machine, const SearchRequest& request,
                const SearchOutput& output);

// Writes diagrams of a layout on a machine to a folder, which is created: memory, time and
// schedule. `limit`: bytes per rank, or 0.
void write_pictures(const Config& config, int ranks, const Machine& machine, std::int64_t limit,
                    const std::string& folder);

}  // namespace trireme::cli
