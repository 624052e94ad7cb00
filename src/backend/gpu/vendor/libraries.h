// Libraries whose headers the build found; plug-ins are compiled for those only.
#pragma once

#include "backend/gpu/which.h"

// Folder of the vendor's libraries found by the build.
#ifndef TRIREME_VENDOR_LIBRARIES
#define TRIREME_VENDOR_LIBRARIES ""
#endif

#if TRIREME_HIP
#if __has_include(<hipblaslt/hipblaslt.h>)
#define TRIREME_HAS_LT 1
#endif
#if __has_include(<rocblas/rocblas.h>)
#define TRIREME_HAS_ROCBLAS 1
#endif
#elif __has_include(<cublasLt.h>)
#define TRIREME_HAS_LT 1
#endif
