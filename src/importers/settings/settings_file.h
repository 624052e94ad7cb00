// Settings files of other systems: accelerate's YAML, DeepSpeed's JSON and torchtitan's TOML, as
// settings of ours that mean the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "importers/megatron/translate.h"

namespace trireme::settings {

enum class System { accelerate, deepspeed, torchtitan };

// As in messages: "accelerate".
const char* name_of(System system);

// What a settings file says. accelerate's and DeepSpeed's know neither the model nor the data:
// those are in the user's program, so that the settings are a part of a configuration.
struct SettingsFile {
  System system = System::accelerate;
  megatron::Translation translation;  // settings, notes, and what could not be carried over
  std::vector<std::string> passed;    // keys that the file has and that change no number
  // Micro-batches of a rank in a step, and the key that says so; 0: the file does not say. With a
  // batch that the file leaves open: global batch = micro-batch x these x data-parallel ranks.
  std::int64_t micro_batches = 0;
  std::string micro_batches_key;
  std::int64_t ranks = 0;  // 0: the file does not say
  std::int64_t nodes = 0;
  std::string open;  // what the file does not know and a configuration needs
};

// Whether the name of a file is that of settings (.yaml, .yml, .json, .toml) and not of a script.
bool is_settings_file(const fs::path& path);

// Reads a file of at most 1 MiB. `ranks`: the number of processes, where the file does not say it;
// 0: not known. Throws bad_input for a file that is none of the three, or that its own system would
// not read.
SettingsFile read_settings_file(const fs::path& path, std::int64_t ranks);
// The same from a text; the end of the name says what kind it is.
SettingsFile read_settings(const std::string& text, const fs::path& name, std::int64_t ranks);

}  // namespace trireme::settings
