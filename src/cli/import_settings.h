// `trireme import-args` of a settings file: accelerate's, DeepSpeed's or torchtitan's.
#pragma once

#include <cstdint>
#include <string>

#include "importers/megatron/import.h"

namespace trireme::cli {

// Prints the settings as TOML, with what could not be carried over, and writes them to `output`
// where that is not "". `ranks`: 0 where they are not known; `device`: run.device, "" as the file
// says. Fails (exit code 2) where the training would be another one; the settings are written all
// the same.
void import_settings(const std::string& file, std::int64_t ranks, const std::string& device,
                     const std::string& output);

// The same for the settings file of torchtitan or accelerate that a launch script names, with what
// the script's command line says beside it. False where the script started neither.
bool import_settings_of_script(const script::ScriptRun& run, const std::string& script,
                               const megatron::ImportOptions& options, const std::string& output);

}  // namespace trireme::cli
