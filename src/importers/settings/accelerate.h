// The parts of accelerate's reader.
#pragma once

#include "importers/settings/reader.h"

namespace trireme::settings {

// Keys that change no number, and what others of their values would do. `type`: the kind of
// distribution, in capitals; the section of another kind has no effect.
void pass_accelerate_keys(Reader& reader, const std::string& type);

// The sections "megatron_lm_config" and "parallelism_config".
void read_accelerate_megatron(Reader& reader);
void read_accelerate_parallelism(Reader& reader);

}  // namespace trireme::settings
