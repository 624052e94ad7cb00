// Interactive creation of a configuration: `trireme config`.
#pragma once

#include <map>
#include <span>
#include <string>

#include "cli/configure/questions.h"
#include "importers/settings/settings_file.h"

namespace trireme::cli {

// All questions in order; each has a flag with its name.
std::span<const Question> config_questions();

// Asks the unanswered questions, derives what it can, and returns the configuration as TOML with
// comments that explain derived values. `from`: settings of another system, or null; they are kept,
// including the layout. Fails (exit code 2) if nothing fits.
std::string configuration_by_questions(Questions& questions, const settings::SettingsFile* from);

}  // namespace trireme::cli
