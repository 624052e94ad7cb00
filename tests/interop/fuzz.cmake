# Fuzz targets of the module.
trireme_fuzzer(safetensors ${CMAKE_CURRENT_LIST_DIR}/fuzz_safetensors.cpp tensor interop/safetensors_header.cpp interop/safetensors.cpp)
