// The names of cuBLASLt and hipBLASLt, whose functions, types and constants differ by a prefix.
// https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api
// https://rocm.docs.amd.com/projects/hipBLASLt
#pragma once

#include "backend/gpu/which.h"

#if TRIREME_HIP
#include <hipblaslt/hipblaslt.h>
#define LT(name) hipblasLt##name
#define LT_CONSTANT(name) HIPBLASLT_##name
#define LT_BLAS(name) HIPBLAS_##name
#define LT_DATA(name) HIP_##name
#else
#include <cublasLt.h>
#define LT(name) cublasLt##name
#define LT_CONSTANT(name) CUBLASLT_##name
#define LT_BLAS(name) CUBLAS_##name
#define LT_DATA(name) CUDA_##name
#endif

namespace trireme::gpu::lt {

#if TRIREME_HIP
using Status = hipblasStatus_t;
using DataType = hipDataType;
using Stream = hipStream_t;
#else
using Status = cublasStatus_t;
using DataType = cudaDataType_t;
using Stream = cudaStream_t;
#endif

// clang-format off
#define TRIREME_LT_COMMON(X) \
  X(Create) X(Destroy) X(GetVersion) X(MatmulDescCreate) X(MatmulDescDestroy) \
  X(MatmulDescSetAttribute) X(MatrixLayoutCreate) X(MatrixLayoutDestroy) \
  X(MatmulPreferenceCreate) X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute) \
  X(MatmulAlgoGetHeuristic) X(Matmul)
// clang-format on
#if TRIREME_HIP
#define TRIREME_LT_FUNCTIONS(X) TRIREME_LT_COMMON(X)
#else
#define TRIREME_LT_FUNCTIONS(X) TRIREME_LT_COMMON(X) X(MatmulAlgoCheck)
#endif

// Functions of the library, which is loaded at run time so that the plug-in starts without it.
struct Functions {
#define TRIREME_LT_MEMBER(name) decltype(&LT(name)) name;
  TRIREME_LT_FUNCTIONS(TRIREME_LT_MEMBER)
#undef TRIREME_LT_MEMBER
};

}  // namespace trireme::gpu::lt
