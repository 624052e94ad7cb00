# Fuzz targets of the module.
trireme_fuzzer(launch_script ${CMAKE_CURRENT_LIST_DIR}/fuzz_script.cpp config megatron)
