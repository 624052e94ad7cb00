// `trireme import-args` for the settings files of accelerate, DeepSpeed and torchtitan.
#pragma once

#include <cstdint>
#include <string>

#include "importers/megatron/import.h"

namespace trireme::cli {

// Prints the settings as TOML, with a list of what could not be converted, and writes them to
// `output` unless that is "". `ranks`: 0 if unknown; `device`: run.device, "" to keep the
// file's. Fails (exit code 2) if the training would not be equivalent; the settings are still
// written.
void import_settings(const std::string& file, std::int64_t ranks, const std::string& device,
                     const std::string& output);

// The same for the torchtitan or accelerate settings file used by a launch script, combined with
// the script's command line. Returns false if the script uses neither.
bool import_settings_of_script(const script::ScriptRun& run, const std::string& script,
                               const megatron::ImportOptions& options, const std::string& output);

}  // namespace trireme::cli
