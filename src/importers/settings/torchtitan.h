// Parts of the reader for torchtitan's job files.
#pragma once

#include "importers/settings/reader.h"
#include "importers/settings/torchtitan_age.h"

namespace trireme::settings {

// Handles keys of all versions without effect on results, and the effects of their other values.
void pass_torchtitan_keys(Reader& reader);

// Reads parallelism degrees and derived settings: ranks, ZeRO, schedule, batch and precision.
void read_torchtitan_layout(Reader& reader, const Age& age, std::int64_t ranks);

}  // namespace trireme::settings
