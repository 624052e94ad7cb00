// Folders written by transformers, with a small model of each kind.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace trireme {

inline fs::path reference(const std::string& name) {
  return fs::path(TRIREME_TEST_DATA) / "hf" / name;
}

inline const std::vector<std::string> reference_models{
    "gpt2", "llama", "llama_tied", "llama3_rope", "linear_rope", "bert", "megatron_bert"};

}  // namespace trireme
