// The rates and batches that published models of a size were trained with.
#pragma once

#include <cstdint>

namespace trireme::cli {

struct Recommended {
  double parameters, rate, batch_tokens;
};

// From table 2.1 of Brown et al. 2020, by parameters: the learning rate falls and the batch grows
// with the model.
const Recommended& recommended_for(double parameters);

// Settings of Devlin et al. 2019 for both sizes of BERT; it learns from one token in seven only,
// over many passes.
constexpr Recommended of_bert = {0, 1e-4, 256 * 512};
constexpr std::int64_t steps_of_bert = 1'000'000;

}  // namespace trireme::cli
