// Import of other systems' settings by `trireme config --from FILE`.
#pragma once

#include <map>
#include <string>

#include "importers/settings/settings_file.h"

namespace trireme::cli {

// The settings of `file`, in which nothing is lost: otherwise fails (exit code 2) and says what.
// `nodes`, `per_node`: what flags say of the ranks, which must be those of the file; 0: nothing.
settings::SettingsFile settings_to_start_from(const std::string& file, std::int64_t nodes,
                                              std::int64_t per_node);

// Answers to the questions of `trireme config`, by name, that the file has.
std::map<std::string, std::string> answers_of(const settings::SettingsFile& file);

// The value of a key ("section.key") as TOML, or "".
std::string value_of(const settings::SettingsFile& file, const std::string& key);

// `toml`, a configuration with one "key = value" in a line, with every setting of the file but
// those that the answers hold: in place of the line of the same key, else at the end of its
// section.
std::string with_settings_of(const settings::SettingsFile& file, const std::string& toml);

}  // namespace trireme::cli
