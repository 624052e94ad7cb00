# Fuzz targets of the room.
trireme_fuzzer(launch_script ${CMAKE_CURRENT_LIST_DIR}/fuzz_script.cpp config megatron)
