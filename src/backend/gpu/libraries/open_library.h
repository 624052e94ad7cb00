// Finds the vendor's library of matrix products.
#pragma once

#include <memory>
#include <string>

#include "backend/gpu/libraries/library.h"

namespace trireme::gpu {

struct OpenedLibrary {
  std::unique_ptr<ProductLibrary> library;  // null: there is none, or it is not wanted
  std::string note;                         // a line for the user that says why, or empty
  std::string path;                         // of its file
  bool is_missing = false;                  // it is wanted and there is none
};

// There must be a device. TRIREME_GPU_LIBRARIES=0 in the environment: no library.
OpenedLibrary open_library();

}  // namespace trireme::gpu
