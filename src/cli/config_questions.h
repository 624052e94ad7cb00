// `trireme config`: a first configuration by questions.
#pragma once

#include <map>
#include <span>
#include <string>

#include "cli/questions.h"
#include "importers/settings/settings_file.h"

namespace trireme::cli {

// All questions, in the order in which they are asked; each has a flag of its name.
std::span<const Question> config_questions();

// Asks what is not answered, works out what can be, and returns the configuration as TOML with the
// reason next to what was worked out. `from`: the settings of another system, or null; what they
// say stays, the layout included. Fails (exit code 2) where nothing fits.
std::string configuration_by_questions(Questions& questions, const settings::SettingsFile* from);

}  // namespace trireme::cli
