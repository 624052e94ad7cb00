// Learning rates and batch sizes of published models, by model size.
#pragma once

#include <cstdint>

namespace trireme::cli {

struct Recommended {
  double parameters, rate, batch_tokens;
};

// From table 2.1 of Brown et al. 2020, by number of parameters: larger models use a lower learning
// rate and a larger batch.
const Recommended& recommended_for(double parameters);

// Settings of Devlin et al. 2019 for both sizes of BERT, which predicts only one token in seven and
// needs many epochs.
constexpr Recommended of_bert = {0, 1e-4, 256 * 512};
constexpr std::int64_t steps_of_bert = 1'000'000;

}  // namespace trireme::cli
