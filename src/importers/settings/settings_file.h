// Converts settings files of other systems (accelerate's YAML, DeepSpeed's JSON, torchtitan's TOML
// and saved JSON, Megatron-Bridge's YAML) to equivalent Trireme settings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "importers/megatron/translate.h"

namespace trireme::settings {

enum class System { accelerate, deepspeed, torchtitan, bridge };

// Name for messages: "accelerate".
const char* name_of(System system);

// Contents of a settings file. accelerate's and DeepSpeed's files do not contain the model and
// data, which are in the user's program, so they provide only a part of a configuration.
struct SettingsFile {
  System system = System::accelerate;
  megatron::Translation translation;  // settings, notes, and what was not carried over
  std::vector<std::string> passed;    // keys in the file that do not change results
  // Micro-batches per rank and step, and the key that sets them; 0: not in the file. If the batch
  // size is open: global batch = micro-batch x micro_batches x data-parallel ranks.
  std::int64_t micro_batches = 0;
  std::string micro_batches_key;
  std::int64_t ranks = 0;  // 0: not in the file
  std::int64_t nodes = 0;
  std::string open;  // missing information that a configuration needs
};

// Whether the extension is that of a settings file (.yaml, .yml, .json, .hjson, .toml), not of a
// script.
bool is_settings_file(const fs::path& path);

// Reads a file of at most 1 MiB. `ranks`: the number of processes if the file does not set it; 0:
// unknown. Throws bad_input for a file of none of these systems, or one that its own system
// would not accept.
SettingsFile read_settings_file(const fs::path& path, std::int64_t ranks);
// Same from text; the extension of `name` tells the format.
SettingsFile read_settings(const std::string& text, const fs::path& name, std::int64_t ranks);

}  // namespace trireme::settings
