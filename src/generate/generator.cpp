// Feeds prompts in chunks, then one token at a time.
#include "generate/generator.h"

#include <algorithm>
#include <cstring>

#include "backend/device.h"
#include "model/batch_inputs.h"
#include "model/rotary.h"

namespace trireme {
namespace {
constexpr std::int64_t widest_prompt_chunk = 64;
}

Generator::Generator(TrainedModel& model, std::int64_t batch, std::int64_t capacity)
    : model_(model.config().model),
      batch_(batch),
      capacity_(capacity),
      vocab_size_(model.config().model.vocab_size) {
  const ModelConfig& m = model.config().model;
  if (m.position == PositionEncoding::learned && capacity > m.max_positions) {
    fail_input(
        "the prompt and new tokens together have {} positions, but the model has {} learned "
        "positions",
        capacity, m.max_positions);
  }
  check_scaled_length(m, capacity, "the prompt and new tokens together");
  prompt_width_ = std::min(widest_prompt_chunk, capacity);
  BuildOptions build;
  build.purpose = Purpose::decoding;
  build.batch = batch;
  // A chunk may write padding after the last valid position.
  build.cache_capacity = capacity + prompt_width_;
  build.seq = 1;
  token_stage_ = model.build(build);
  build.seq = prompt_width_;
  prompt_stage_ = model.build(build, token_stage_.get());
}

void Generator::feed(Stage& stage, std::int64_t width,
                     const std::vector<std::vector<std::int32_t>>& sequences,
                     const std::vector<std::int64_t>& count) {
  Batch batch(batch_, width);
  for (std::int64_t b = 0; b < batch_; ++b) {
    batch.lengths[b] = static_cast<std::int32_t>(cached_[b]);
    batch.new_tokens[b] = static_cast<std::int32_t>(std::min(count[b], width));
    for (std::int64_t i = 0; i < width; ++i) {
      const bool real = i < count[b];
      batch.tokens[b * width + i] = real ? sequences[b][cached_[b] + i] : 0;
      batch.positions[b * width + i] = static_cast<std::int32_t>(
          rotary_row(model_, std::min(cached_[b] + i, capacity_ - 1), std::ssize(sequences[b])));
    }
  }
  load_batch(stage, 0, batch);
  stage.evaluate();
  for (std::int64_t b = 0; b < batch_; ++b) cached_[b] += count[b];
}

std::vector<float> Generator::logits(const Stage& stage, std::int64_t row) const {
  std::vector<float> out(static_cast<std::size_t>(vocab_size_));
  const Value* value = nullptr;
  const Graph& head = *stage.definition().templates.back().eval;
  for (ValueId id = 0; id < head.value_count(); ++id) {
    if (head.value(id).role == Role::result) value = &head.value(id);
  }
  const std::int64_t width = value->shape.back();
  with_compute_type(value->dtype, [&]<class T>(T) {
    stage.read_result<T>(0, ResultOutput::logits, [&](const T* from) {
      for (std::int64_t i = 0; i < vocab_size_; ++i)
        out[i] = static_cast<float>(from[row * width + i]);
    });
  });
  return out;
}

std::vector<std::vector<std::int32_t>> Generator::generate(
    std::vector<std::vector<std::int32_t>> sequences, const GenerateOptions& options,
    const std::function<void(std::size_t, std::int32_t)>& on_token) {
  validate(options.sampling);
  const auto real = static_cast<std::int64_t>(sequences.size());
  TRIREME_CHECK(real > 0 && real <= batch_);
  std::vector<std::int64_t> limit(static_cast<std::size_t>(batch_), 0);
  for (std::int64_t b = 0; b < real; ++b) {
    if (sequences[b].empty()) fail_input("a prompt must have at least one token");
    limit[b] = std::min(capacity_,
                        static_cast<std::int64_t>(sequences[b].size()) + options.max_new_tokens);
    if (static_cast<std::int64_t>(sequences[b].size()) > capacity_) {
      fail_input("a prompt has {} tokens, but the generator supports at most {}",
                 sequences[b].size(), capacity_);
    }
  }
  sequences.resize(static_cast<std::size_t>(batch_), {0});
  cached_.assign(static_cast<std::size_t>(batch_), 0);
  std::vector<bool> done(static_cast<std::size_t>(batch_), false);
  for (std::int64_t b = 0; b < batch_; ++b) {
    done[b] = b >= real || static_cast<std::int64_t>(sequences[b].size()) >= limit[b];
  }

  while (std::find(done.begin(), done.end(), false) != done.end()) {
    // Feed the tokens that are not cached yet: first the whole prompt, then one token at a time.
    std::vector<std::int64_t> count(static_cast<std::size_t>(batch_), 0);
    std::int64_t most = 0;
    for (std::int64_t b = 0; b < batch_; ++b) {
      if (!done[b]) {
        count[b] =
            std::min(prompt_width_, static_cast<std::int64_t>(sequences[b].size()) - cached_[b]);
      }
      most = std::max(most, count[b]);
    }
    const bool single = most == 1;
    Stage& stage = single ? *token_stage_ : *prompt_stage_;
    const std::int64_t width = single ? 1 : prompt_width_;
    feed(stage, width, sequences, count);
    for (std::int64_t b = 0; b < batch_; ++b) {
      if (done[b] || cached_[b] < static_cast<std::int64_t>(sequences[b].size())) continue;
      std::vector<float> row = logits(stage, b * width + count[b] - 1);
      const std::int32_t id = next_token(row, sequences[b], options.sampling, options.seed,
                                         static_cast<std::uint64_t>(b), sequences[b].size());
      sequences[b].push_back(id);
      // Where longrope divides by other factors from this length on, keys have to be rotated again.
      const std::int64_t length = std::ssize(sequences[b]);
      if (rotary_row(model_, 0, length) != rotary_row(model_, 0, length - 1)) cached_[b] = 0;
      if (on_token) on_token(static_cast<std::size_t>(b), id);
      done[b] =
          static_cast<std::int64_t>(sequences[b].size()) >= limit[b] ||
          std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end();
    }
  }
  sequences.resize(static_cast<std::size_t>(real));
  return sequences;
}

}  // namespace trireme
