// Parts of the reader for DeepSpeed's configuration.
#pragma once

#include "importers/settings/reader.h"

namespace trireme::settings {

// Reads the sections "optimizer" and "scheduler".
void read_deepspeed_optimizer(Reader& reader);

}  // namespace trireme::settings
