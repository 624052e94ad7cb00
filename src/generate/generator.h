// Text generation with a key/value cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "generate/sampling.h"
#include "generate/trained_model.h"

namespace trireme {

struct GenerateOptions {
  SamplingOptions sampling;
  std::int64_t max_new_tokens = 100;
  std::uint64_t seed = 0;
  std::vector<std::int32_t> stop_ids;  // end of a sequence; it is kept in the output
};

class Generator {
 public:
  // Supports up to `batch` concurrent sequences, each of at most `capacity` tokens including the
  // prompt.
  Generator(TrainedModel& model, std::int64_t batch, std::int64_t capacity);

  // Continues each prompt (must not be empty); sequence i has its own random stream. The output
  // includes the prompt. `on_token(sequence, id)` is called for every new token when it is drawn.
  std::vector<std::vector<std::int32_t>> generate(
      std::vector<std::vector<std::int32_t>> sequences, const GenerateOptions& options,
      const std::function<void(std::size_t, std::int32_t)>& on_token = {});

 private:
  // Feeds `count[b]` tokens of each sequence, starting at its cached length.
  void feed(Stage& stage, std::int64_t width,
            const std::vector<std::vector<std::int32_t>>& sequences,
            const std::vector<std::int64_t>& count);
  // Logits for row `row` of the last feed, as floats.
  std::vector<float> logits(const Stage& stage, std::int64_t row) const;

  ModelConfig model_;
  std::int64_t batch_, capacity_, vocab_size_;
  std::int64_t prompt_width_;
  std::unique_ptr<Stage> prompt_stage_, token_stage_;
  std::vector<std::int64_t> cached_;
};

}  // namespace trireme
