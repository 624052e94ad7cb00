// Parts of the reader for accelerate's settings.
#pragma once

#include "importers/settings/reader.h"

namespace trireme::settings {

// Handles keys without effect on results, and the effects of their other values. `type`: the
// distribution type in capitals; sections of other types have no effect.
void pass_accelerate_keys(Reader& reader, const std::string& type);

// Reads the sections "megatron_lm_config" and "parallelism_config".
void read_accelerate_megatron(Reader& reader);
void read_accelerate_parallelism(Reader& reader);

}  // namespace trireme::settings
