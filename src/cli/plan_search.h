// `trireme plan --search`: the layouts that a machine trains a model fastest with.
#pragma once

#include <string>

#include "config/config.h"
#include "plan/machine.h"

namespace trireme::cli {

struct SearchRequest {
  std::int64_t ranks = 0;   // 0: not said
  std::int64_t memory = 0;  // bytes of a rank; 0: a device's
  std::string stack, pictures;
  bool exhaustive = false, json = false;
};

// `config` is valid and knows its vocabulary. Prints the answer. Fails with exit code 1 where no
// layout fits, and with 2 where the request makes none possible.
void run_search(const Config& config, const Machine& machine, const SearchRequest& request);

// Writes the pictures of a layout on a machine into a folder, which is made: memory, time and
// schedule. `limit`: bytes of a rank, or 0.
void write_pictures(const Config& config, int ranks, const Machine& machine, std::int64_t limit,
                    const std::string& folder);

}  // namespace trireme::cli
