# Vendors' libraries of matrix products, for tests: as much of what calls them as there are headers for. Plug-ins find
# the headers among those of their vendor, and the libraries when they start.
add_library(trireme_backend_gpu_libraries STATIC EXCLUDE_FROM_ALL environment.cpp
  libraries/either_library.cpp libraries/fp8_check.cpp libraries/products.cpp libraries/search.cpp libraries/self_check.cpp)
target_link_libraries(trireme_backend_gpu_libraries PUBLIC trireme_backend)

function(trireme_library_front name file headers)
  if(NOT headers)
    return()
  endif()
  add_library(trireme_${name}_front OBJECT EXCLUDE_FROM_ALL ${file})
  target_link_libraries(trireme_${name}_front PRIVATE trireme_backend)
  target_compile_definitions(trireme_${name}_front PRIVATE ${ARGN})
  target_include_directories(trireme_${name}_front SYSTEM PRIVATE ${headers})
endfunction()

get_filename_component(nvcc "${TRIREME_NVCC}" REALPATH)
get_filename_component(cuda "${nvcc}/../.." ABSOLUTE)
find_path(TRIREME_CUBLASLT_HEADERS cublasLt.h HINTS ${cuda}/include PATHS /usr/local/cuda/include)
find_library(TRIREME_CUBLASLT cublasLt HINTS ${cuda}/lib64 ${cuda}/lib PATHS /usr/local/cuda/lib64 /usr/local/cuda/lib)
find_path(TRIREME_ROCBLAS_HEADERS rocblas/rocblas.h HINTS ${TRIREME_ROCM}/include PATHS /opt/rocm/include)
trireme_library_front(cublaslt vendor/lt.cpp "${TRIREME_CUBLASLT_HEADERS}" TRIREME_CUDA=1)
trireme_library_front(rocblas vendor/rocblas.cpp "${TRIREME_ROCBLAS_HEADERS}" TRIREME_HIP=1 __HIP_PLATFORM_AMD__=1)
