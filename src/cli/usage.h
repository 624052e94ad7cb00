// Error messages for invalid command lines.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace trireme::cli {

// Returns one line that begins with "trireme" and explains the parse error, with the nearest known
// command or flag if one was mistyped, and the relevant --help.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv);

// Message for an unknown command, which --help would hide; "" if all commands exist.
std::string unknown_command(const CLI::App& app, int argc, char** argv);

}  // namespace trireme::cli
