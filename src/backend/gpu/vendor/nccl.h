// The collectives of NCCL and RCCL, which have the same functions: asked for when they are needed,
// so that the program runs where they are not installed, and declared here, so that it builds
// there.
#pragma once

#include <string>

#include "backend/collectives.h"

namespace trireme::gpu {

using NativeStream = void* (*)(Queue&);

// Loads `file` ("libnccl.so.2"), whose symbols stay local, once and for all: null where it cannot
// be loaded or lacks a function, with the reason in `problem`. Sets NCCL_NVLS_ENABLE=0 in the
// environment unless it is set: sums in NVLink's switches differ from call to call
// (github.com/NVIDIA/nccl, issue 1497).
const CollectiveTable* load_nccl(const char* file, NativeStream stream_of, std::string& problem);

}  // namespace trireme::gpu
