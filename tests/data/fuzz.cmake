# Fuzz targets of the module.
trireme_fuzzer(index ${CMAKE_CURRENT_LIST_DIR}/fuzz_index.cpp data/indexed_dataset.cpp)
trireme_fuzzer(texts ${CMAKE_CURRENT_LIST_DIR}/fuzz_texts.cpp data/json_texts.cpp data/sentences.cpp
  tokenizer/jsonl.cpp tokenizer/utf8.cpp -lsimdjson)
