// Messages for command lines that do not parse.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace trireme::cli {

// What is wrong with the command line, as a line that begins with "trireme": with the nearest known
// command or flag where one was mistyped, and with the --help that says more.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv);

}  // namespace trireme::cli
