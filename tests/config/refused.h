// Helper that returns the error message for overrides of a valid configuration.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "refusal.h"

namespace trireme {

inline constexpr const char* kValid = R"(
[model]
num_layers = 12
hidden_size = 768
num_heads = 12
seq_length = 1024
vocab_size = 50257
[train]
micro_batch_size = 4
global_batch_size = 32
iters = 1000
[optimizer]
lr = 1e-3
)";

inline Config valid_with(const std::vector<std::string>& overrides) {
  return parse_config(kValid, "valid", overrides);
}

inline std::string refused(const std::vector<std::string>& overrides) {
  return refusal_of([&] { validate(valid_with(overrides)); });
}

inline std::string layout_refused(std::int64_t ranks, const std::vector<std::string>& overrides) {
  return refusal_of([&] { validate_layout(valid_with(overrides), ranks); });
}

}  // namespace trireme
