// The final report of `trireme try`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/try/settings.h"
#include "cli/try/text.h"

namespace trireme::cli {

struct CompressedSizes {
  std::int64_t gzip = 0;  // of the held-out text
  std::int64_t xz = 0;    // bytes that held-out text adds to the training text
};

CompressedSizes compressed_sizes(const TryText& text);

// Evaluates the trained model, writes RUN/summary.json, and prints the results, samples of an
// early and of the last checkpoint, and next commands. `texts` are the user's files, `full` is
// --full.
void print_try_report(const TryFiles& files, const CompressedSizes& sizes,
                      const std::vector<std::string>& texts, bool full);

}  // namespace trireme::cli
