# Fuzz targets of the module.
trireme_fuzzer(safetensors ${CMAKE_CURRENT_LIST_DIR}/fuzz_safetensors.cpp interop)
