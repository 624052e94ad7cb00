# Fuzz targets of the module.
trireme_fuzzer(settings ${CMAKE_CURRENT_LIST_DIR}/fuzz_settings.cpp importers_settings)
