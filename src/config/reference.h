// Reference of all configuration keys, as Markdown for docs/configuration.md and as text for the
// terminal. Both are generated from the table in config/fields.h.
#pragma once

#include <string>

namespace trireme {

// The whole page docs/configuration.md; a test compares it with the committed file.
std::string configuration_markdown();

// The keys with default, description, unit and valid values, for `trireme train --help`.
std::string configuration_help();

// A configuration file with all keys as comments, for `trireme config --template`. Only data must
// be set before it can train.
std::string configuration_template();

}  // namespace trireme
