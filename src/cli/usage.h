// Messages for command lines that do not parse.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace trireme::cli {

// One line that begins with "trireme" and says why the command line does not parse, with the
// nearest known command or flag where one was mistyped, and the --help to look at.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv);

// The message for a command that does not exist, which --help would hide; "" if all commands exist.
std::string unknown_command(const CLI::App& app, int argc, char** argv);

}  // namespace trireme::cli
