# Fuzz targets of the module.
trireme_fuzzer(pickle ${CMAKE_CURRENT_LIST_DIR}/fuzz_pickle.cpp formats_torch)
trireme_fuzzer(torch_zip ${CMAKE_CURRENT_LIST_DIR}/fuzz_torch_zip.cpp formats_torch)
