// Locates the vendor's GEMM library.
#pragma once

#include <memory>
#include <string>

#include "backend/gpu/libraries/library.h"

namespace trireme::gpu {

struct OpenedLibrary {
  std::unique_ptr<ProductLibrary> library;  // null: not found or disabled
  std::string note;                         // message for the user with the reason, or empty
  std::string path;                         // of the library's file
  bool is_missing = false;                  // wanted but not found
};

// Requires a device. TRIREME_GPU_LIBRARIES=0 in the environment disables libraries.
OpenedLibrary open_library();

}  // namespace trireme::gpu
