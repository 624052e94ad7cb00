// Selects the GPU to compile for: TRIREME_CUDA, TRIREME_HIP or TRIREME_EMULATED. The build defines
// it for files of the host compiler; kernel compilers are detected by their own macros.
#pragma once

#if !defined(TRIREME_CUDA) && !defined(TRIREME_HIP)
#if defined(__HIP__)
#define TRIREME_HIP 1
#elif defined(__CUDACC__)
#define TRIREME_CUDA 1
#else
#define TRIREME_EMULATED 1
#endif
#endif
