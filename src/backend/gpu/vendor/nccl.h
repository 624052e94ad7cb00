// NCCL and RCCL, which have the same functions. The library is loaded on demand, so
// that programs run without it, and its functions are declared here, so that the build
// does not need its headers.
#pragma once

#include <string>

#include "backend/collectives.h"
#include "backend/gpu/libraries/search.h"

namespace trireme::gpu {

// Functions of the runtime that calls of the library need.
struct NcclDevice {
  void* (*stream_of)(Queue&);
  void (*use_selected)();  // makes the selected device current in this thread
};

// Locates NCCL or RCCL; loaded only once.
const FoundLibrary& find_nccl();

// Returns its functions, or null, with the reason in `problem`, if the library or one is missing.
const CollectiveTable* load_nccl(const FoundLibrary& library, const NcclDevice& device,
                                 std::string& problem);

}  // namespace trireme::gpu
