// The collectives of NCCL and RCCL, which have the same functions: asked for when they are needed,
// so that the program runs where they are not installed, and declared here, so that it builds
// there.
#pragma once

#include <string>

#include "backend/collectives.h"
#include "backend/gpu/libraries/search.h"

namespace trireme::gpu {

// What the library's calls need of the runtime.
struct NcclDevice {
  void* (*stream_of)(Queue&);
  void (*use_selected)();  // makes the selected device that of this thread
};

// Where NCCL or RCCL is; loaded once and for all.
const FoundLibrary& find_nccl();

// Its functions: null where there is none or it lacks one, with the reason in `problem`.
const CollectiveTable* load_nccl(const FoundLibrary& library, const NcclDevice& device,
                                 std::string& problem);

}  // namespace trireme::gpu
