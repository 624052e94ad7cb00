// Matrix products by cuBLASLt or hipBLASLt.
#pragma once

#include <memory>
#include <optional>

#include "backend/gpu/libraries/library.h"
#include "backend/gpu/vendor/lt_api.h"

namespace trireme::gpu::lt {

// The functions of a loaded library; nothing where one is missing.
std::optional<Functions> functions_of(void* library);

// There must be a device: hipBLASLt ends the process where it finds none. `workspace`: the bytes
// that products get. Throws Error if the library cannot start.
std::unique_ptr<ProductLibrary> make_library(const Functions&, StreamOf, std::int64_t workspace);

}  // namespace trireme::gpu::lt
