# Fuzz targets of the module.
trireme_fuzzer(index ${CMAKE_CURRENT_LIST_DIR}/fuzz_index.cpp data)
trireme_fuzzer(texts ${CMAKE_CURRENT_LIST_DIR}/fuzz_texts.cpp data tokenizer)
