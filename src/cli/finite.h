// Rejects non-finite numbers on the command line.
#pragma once

#include <CLI/CLI.hpp>

namespace trireme::cli {

// Makes all options that take a real number reject "nan", "inf" and values out of a double's range.
// CLI::Range does not reject NaN.
void require_finite_numbers(CLI::App& app);

}  // namespace trireme::cli
