// Which GPU this is compiled for: TRIREME_CUDA, TRIREME_HIP or TRIREME_EMULATED. The build says it
// for the files of the host's compiler; the compilers of kernels are known by what they define.
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
