// Numbers of the command line are finite.
#pragma once

#include <CLI/CLI.hpp>

namespace trireme::cli {

// Options of all commands that take a real number refuse "nan", "inf" and what a double cannot
// hold, of which the bounds of CLI::Range let NaN pass.
void require_finite_numbers(CLI::App& app);

}  // namespace trireme::cli
