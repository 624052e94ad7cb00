# The plug-in for NVIDIA's GPUs, by nvcc. The driver's library is never linked: it is there only where a driver is.
set(TRIREME_CUDA_ARCHS 80 90 100 CACHE STRING "Architectures of NVIDIA's GPUs to compile for")
find_program(TRIREME_NVCC nvcc PATHS /usr/local/cuda/bin REQUIRED)
file(REAL_PATH ${TRIREME_NVCC} nvcc)
cmake_path(GET nvcc PARENT_PATH cuda)
cmake_path(GET cuda PARENT_PATH cuda)
find_library(TRIREME_CUDART cudart_static HINTS ${cuda} PATH_SUFFIXES lib64 lib REQUIRED)

set(options -x cu -std=c++20 --expt-relaxed-constexpr -O3 -Xcompiler=-fPIC,-fvisibility=hidden)
foreach(architecture ${TRIREME_CUDA_ARCHS})
  list(APPEND options -gencode=arch=compute_${architecture},code=sm_${architecture})
endforeach()
# For GPUs that are newer than all of them; what is for one architecture alone (90a) no other can use.
list(GET TRIREME_CUDA_ARCHS -1 newest)
if(newest MATCHES "^[0-9]+$")
  list(APPEND options -gencode=arch=compute_${newest},code=compute_${newest})
endif()

trireme_vendor_plugin(cuda ${TRIREME_NVCC} ${options})
list(TRANSFORM TRIREME_CUDA_ARCHS PREPEND sm_ OUTPUT_VARIABLE architectures)
list(JOIN architectures " " architectures)
target_compile_definitions(trireme_cuda PRIVATE TRIREME_CUDA=1 TRIREME_VENDOR_LIBRARIES="${cuda}/lib64"
  TRIREME_GPU_ARCHITECTURES="${architectures}")
target_include_directories(trireme_cuda SYSTEM PRIVATE ${cuda}/include)
target_link_libraries(trireme_cuda PRIVATE ${TRIREME_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
