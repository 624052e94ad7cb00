// Matrix products by rocBLAS, for AMD devices without hipBLASLt.
// https://rocm.docs.amd.com/projects/rocBLAS
#pragma once

#include <rocblas/rocblas.h>
#include <memory>
#include <optional>

#include "backend/gpu/libraries/library.h"

namespace trireme::gpu::rocblas {

// clang-format off
#define TRIREME_ROCBLAS_FUNCTIONS(X) \
  X(create_handle) X(destroy_handle) X(get_version_string) X(set_atomics_mode) X(set_stream) \
  X(set_workspace) X(gemm_ex)
// clang-format on

// Functions of the library, which is loaded at run time so that the plug-in starts without it.
struct Functions {
#define TRIREME_ROCBLAS_MEMBER(name) decltype(&rocblas_##name) name;
  TRIREME_ROCBLAS_FUNCTIONS(TRIREME_ROCBLAS_MEMBER)
#undef TRIREME_ROCBLAS_MEMBER
};

// Looks up the library's functions; empty if one is missing.
std::optional<Functions> functions_of(void* library);

// `workspace`: bytes per product. Throws Error if the library cannot be initialized.
std::unique_ptr<ProductLibrary> make_library(const Functions&, StreamOf, std::int64_t workspace);

}  // namespace trireme::gpu::rocblas
