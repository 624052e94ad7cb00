# Fuzz targets of the module.
trireme_fuzzer(manifest ${CMAKE_CURRENT_LIST_DIR}/fuzz_manifest.cpp checkpoint)
