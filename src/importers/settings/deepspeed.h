// The parts of DeepSpeed's reader.
#pragma once

#include "importers/settings/reader.h"

namespace trireme::settings {

// "optimizer" and "scheduler".
void read_deepspeed_optimizer(Reader& reader);

}  // namespace trireme::settings
