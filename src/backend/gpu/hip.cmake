# The plug-in for AMD's GPUs, by the clang of a ROCm; or, where TRIREME_ROCM is a folder of unpacked packages with the
# headers and the device library alone, by clang 19.
set(TRIREME_HIP_ARCHS gfx90a gfx942 gfx1100 CACHE STRING "Architectures of AMD's GPUs to compile for")
set(TRIREME_ROCM /opt/rocm CACHE PATH "Where ROCm is, or its unpacked packages")

if(NOT EXISTS ${TRIREME_ROCM}/include/hip/hip_runtime.h)
  message(FATAL_ERROR "TRIREME_HIP: ${TRIREME_ROCM} has no include/hip/hip_runtime.h; TRIREME_ROCM says where ROCm is")
endif()
find_program(TRIREME_HIP_CLANG NAMES clang++ HINTS ${TRIREME_ROCM}/llvm/bin ${TRIREME_ROCM}/lib/llvm/bin
  NO_DEFAULT_PATH)
find_program(TRIREME_HIP_CLANG NAMES clang++-19 REQUIRED)
# Debian names the library by its version, and has it under the machine's name.
find_library(TRIREME_AMDHIP NAMES amdhip64 HINTS ${TRIREME_ROCM}/lib NO_DEFAULT_PATH)
find_library(TRIREME_AMDHIP NAMES amdhip64 libamdhip64.so.5 REQUIRED)
find_path(TRIREME_HIP_BITCODE ockl.bc NO_DEFAULT_PATH PATHS ${TRIREME_ROCM}/amdgcn/bitcode
  ${TRIREME_ROCM}/lib/llvm-17/lib/clang/17/amdgcn/bitcode REQUIRED)

# The headers come first, or those of a HIP that is installed beside this one would be mixed in.
set(options -x hip -std=c++20 -O3 -fPIC -fvisibility=hidden -isystem ${TRIREME_ROCM}/include
  --rocm-path=${TRIREME_ROCM} --rocm-device-lib-path=${TRIREME_HIP_BITCODE})
foreach(architecture ${TRIREME_HIP_ARCHS})
  list(APPEND options --offload-arch=${architecture})
endforeach()

trireme_vendor_plugin(hip ${TRIREME_HIP_CLANG} ${options})
list(JOIN TRIREME_HIP_ARCHS " " architectures)
target_compile_definitions(trireme_hip PRIVATE TRIREME_HIP=1 __HIP_PLATFORM_AMD__=1
  TRIREME_VENDOR_LIBRARIES="${TRIREME_ROCM}/lib" TRIREME_GPU_ARCHITECTURES="${architectures}")
target_include_directories(trireme_hip SYSTEM PRIVATE ${TRIREME_ROCM}/include)
target_link_libraries(trireme_hip PRIVATE ${TRIREME_AMDHIP})
