# Fuzz targets of the module.
foreach(target gpt2_files sentencepiece_model tiktoken_file tokenizer_json wordpiece_vocab)
  trireme_fuzzer(${target} ${CMAKE_CURRENT_LIST_DIR}/fuzz_${target}.cpp tokenizer)
endforeach()
