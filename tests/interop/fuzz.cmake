# Fuzz targets of the room.
trireme_fuzzer(safetensors ${CMAKE_CURRENT_LIST_DIR}/fuzz_safetensors.cpp tensor interop/safetensors_header.cpp interop/safetensors.cpp)
