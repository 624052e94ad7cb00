// A small GPT configuration for plans.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace trireme {

inline Config small(const std::vector<std::string>& overrides = {}) {
  return parse_config(R"(
[run]
precision = "bf16"
[model]
family = "gpt"
num_layers = 4
hidden_size = 64
num_heads = 4
seq_length = 32
vocab_size = 1000
[train]
micro_batch_size = 2
global_batch_size = 16
iters = 1
[optimizer]
lr = 1e-3
)",
                      "test", overrides);
}

}  // namespace trireme
