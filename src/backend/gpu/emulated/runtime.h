// The types of runtime.h on the emulated GPU.
#pragma once

#include "backend/gpu/emulated/stream.h"

namespace trireme::gpu::runtime {

using Stream = emulated::Stream*;
using Event = emulated::Event*;

}  // namespace trireme::gpu::runtime
