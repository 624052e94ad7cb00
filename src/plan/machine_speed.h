// The figures of machine files.
#pragma once

#include <toml++/toml.h>
#include <optional>
#include <string>

#include "plan/timing/speed.h"

namespace trireme {

// Whether `name` is a table of figures.
bool is_speed_table(std::string_view name);
// The figures of a machine file; none where it has no tables of them. Fails (exit code 2) with one
// message that names the key where a figure is missing, unknown or absurd.
std::optional<MachineSpeed> parse_speed(const toml::table& file, const std::string& where);

}  // namespace trireme
