// The parts of DeepSpeed's reader.
#pragma once

#include "importers/settings/reader.h"

namespace trireme::settings {

// Keys that change no number, and what others of their values would do.
void pass_deepspeed_keys(Reader& reader);

// "optimizer" and "scheduler".
void read_deepspeed_optimizer(Reader& reader);

}  // namespace trireme::settings
