# Fuzz targets of the module.
trireme_fuzzer(pickle ${CMAKE_CURRENT_LIST_DIR}/fuzz_pickle.cpp torch)
trireme_fuzzer(torch_zip ${CMAKE_CURRENT_LIST_DIR}/fuzz_torch_zip.cpp torch)
trireme_fuzzer(dcp ${CMAKE_CURRENT_LIST_DIR}/fuzz_dcp.cpp torch)
