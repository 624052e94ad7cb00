// Parser for the performance figures of machine files.
#pragma once

#include <toml++/toml.h>
#include <optional>
#include <string>

#include "plan/timing/speed.h"

namespace trireme {

// Whether `name` is a table of figures.
bool is_speed_table(std::string_view name);
// Parses the figures of a machine file; empty if it has none. Fails (exit code 2) with one message
// that names the key if a figure is missing, unknown or out of range.
std::optional<MachineSpeed> parse_speed(const toml::table& file, const std::string& where);

}  // namespace trireme
