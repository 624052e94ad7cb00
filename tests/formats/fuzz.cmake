# Fuzz targets of the module.
trireme_fuzzer(safetensors ${CMAKE_CURRENT_LIST_DIR}/fuzz_safetensors.cpp tensors)
trireme_fuzzer(dcp ${CMAKE_CURRENT_LIST_DIR}/fuzz_dcp.cpp formats_dcp formats_torch)
