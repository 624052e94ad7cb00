// The parts of torchtitan's reader.
#pragma once

#include "importers/settings/reader.h"
#include "importers/settings/torchtitan_age.h"

namespace trireme::settings {

// Keys of all versions that change no number, and what others of their values would do.
void pass_torchtitan_keys(Reader& reader);

// The degrees, and what follows from them: ranks, ZeRO, the schedule, the batch and the precision.
void read_torchtitan_layout(Reader& reader, const Age& age, std::int64_t ranks);

}  // namespace trireme::settings
