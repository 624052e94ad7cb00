// Import of other systems' settings by `trireme config --from FILE`.
#pragma once

#include <map>
#include <string>

#include "importers/settings/settings_file.h"

namespace trireme::cli {

// Reads the settings of `file`; fails (exit code 2), with the reason, if any would be lost.
// `nodes`, `per_node`: rank counts from flags, which must match the file; 0: not given.
settings::SettingsFile settings_to_start_from(const std::string& file, std::int64_t nodes,
                                              std::int64_t per_node);

// Answers to `trireme config`'s questions that the file provides, by name.
std::map<std::string, std::string> answers_of(const settings::SettingsFile& file);

// Returns the value of a key ("section.key") as TOML, or "".
std::string value_of(const settings::SettingsFile& file, const std::string& key);

// Merges every setting of the file, except those among the answers, into `toml`, a configuration
// with one "key = value" per line: replaces the line of the same key, or appends it to its
// section.
std::string with_settings_of(const settings::SettingsFile& file, const std::string& toml);

}  // namespace trireme::cli
