# Fuzz targets of the module.
trireme_fuzzer(launch_flags ${CMAKE_CURRENT_LIST_DIR}/fuzz_flags.cpp importers_megatron importers_script config)
