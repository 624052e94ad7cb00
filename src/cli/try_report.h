// The final report of `trireme try`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/try_settings.h"
#include "cli/try_text.h"

namespace trireme::cli {

struct CompressedSizes {
  std::int64_t gzip = 0;  // of the text that is held out
  std::int64_t xz = 0;    // what that text adds to the text that was trained on
};

CompressedSizes compressed_sizes(const TryText& text);

// Evaluates the trained model, writes RUN/summary.json, and prints the figures, what an early
// checkpoint and the last one write, and the next commands. `texts` are those that the user gave,
// `full` is --full.
void print_try_report(const TryFiles& files, const CompressedSizes& sizes,
                      const std::vector<std::string>& texts, bool full);

}  // namespace trireme::cli
