// Matrix products by cuBLASLt or hipBLASLt.
#pragma once

#include <memory>
#include <optional>

#include "backend/gpu/libraries/library.h"
#include "backend/gpu/vendor/lt_api.h"

namespace trireme::gpu::lt {

// Looks up the library's functions; empty if one is missing.
std::optional<Functions> functions_of(void* library);

// Requires a device, since hipBLASLt terminates the process without one. `workspace`: bytes per
// product. Throws Error if the library cannot be initialized.
std::unique_ptr<ProductLibrary> make_library(const Functions&, StreamOf, std::int64_t workspace);

}  // namespace trireme::gpu::lt
