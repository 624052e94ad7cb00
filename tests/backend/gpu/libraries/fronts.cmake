# What calls vendors' libraries, each part compiled for its vendor, with substitutes for the calls that would need a GPU.
function(trireme_front_test name headers)
  if(NOT headers)
    return()
  endif()
  string(TOUPPER ${name} upper)
  set(definitions ${ARGN} TRIREME_TEST_${upper}=1)
  list(TRANSFORM definitions PREPEND -D)
  set(test backend/gpu/libraries/${name}_test.cpp)
  target_sources(test_backend_gpu_libraries PRIVATE $<TARGET_OBJECTS:trireme_${name}_front>)
  set_source_files_properties(${test} PROPERTIES COMPILE_OPTIONS "${definitions};-isystem${headers}")
endfunction()

trireme_front_test(cublaslt "${TRIREME_CUBLASLT_HEADERS}" TRIREME_CUDA=1
  TRIREME_CUBLASLT_LIBRARY="${TRIREME_CUBLASLT}")
trireme_front_test(rocblas "${TRIREME_ROCBLAS_HEADERS}" TRIREME_HIP=1 __HIP_PLATFORM_AMD__=1)
