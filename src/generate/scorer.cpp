// A stage that holds the weights, and a stage for the current length.
#include "generate/scorer.h"

#include <algorithm>
#include <cmath>

#include "backend/device.h"
#include "base/counted.h"
#include "base/divide.h"
#include "model/batch_inputs.h"

namespace trireme {
namespace {

void check_token_types(const ScoredSequence& sequence, const std::string& where) {
  const auto& types = sequence.token_types;
  if (types.size() != sequence.ids.size())
    fail_input("{} has {} for {}", where, counted(types.size(), "token type"),
               counted(sequence.ids.size(), "id"));
  for (const std::int32_t type : types) {
    if (type != 0 && type != 1) fail_input("{}: token type {} is neither 0 nor 1", where, type);
  }
}

// Positions after the sequence are padded with token 0.
Batch batch_of(const ScoredSequence& sequence, std::int64_t length, const ModelConfig& model) {
  Batch batch(1, length);
  set_positions(batch, 0, std::ssize(sequence.ids), model);
  std::ranges::copy(sequence.ids, batch.tokens.begin());
  std::ranges::copy(sequence.token_types, batch.segments.begin());
  return batch;
}

// Reads rows of a result without column padding.
void read_rows(const Stage& stage, ResultOutput result, std::int64_t first, std::int64_t last,
               std::int64_t columns, std::int64_t padded, const Scorer::UseRow& use) {
  std::vector<float> row(static_cast<std::size_t>(columns));
  with_compute_type(stage.definition().compute, [&]<class T>(T) {
    stage.read_result<T>(0, result, [&](const T* from) {
      for (std::int64_t i = first; i < last; ++i) {
        std::transform(from + i * padded, from + i * padded + columns, row.begin(),
                       [](T x) { return static_cast<float>(x); });
        use(i, row);
      }
    });
  });
}

// The log probability of an id.
double log_probability(std::span<const float> logits, std::int32_t id) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return static_cast<double>(logits[static_cast<std::size_t>(id)]) - largest - std::log(sum);
}

}  // namespace

void check_sequence(const ScoredSequence& sequence, const ModelConfig& m,
                    const std::string& where) {
  const auto length = static_cast<std::int64_t>(sequence.ids.size());
  if (length == 0) fail_input("{} is empty", where);
  check_scaled_length(m, length, where);
  if (m.position == PositionEncoding::learned && length > m.max_positions) {
    fail_input("{} has {}, but the model has {}", where, counted(length, "token"),
               counted(m.max_positions, "learned position"));
  }
  for (const std::int32_t id : sequence.ids) {
    if (id < 0 || id >= m.vocab_size) {
      fail_input("{}: id {} is not in the vocabulary of {}", where, id, m.vocab_size);
    }
  }
}

Scorer::Scorer(TrainedModel& model, std::int64_t longest)
    : model_(model), holder_(build(longest, nullptr)), longest_(longest), length_(longest) {}

std::unique_ptr<Stage> Scorer::build(std::int64_t length, const Stage* shares) const {
  BuildOptions build;
  build.purpose = Purpose::scoring;
  build.seq = length;
  return model_.build(build, shares);
}

void Scorer::prepare(std::int64_t length) {
  if (length == length_) return;
  shorter_.reset();
  if (length > longest_) {
    holder_.reset();
    holder_ = build(length, nullptr);
    longest_ = length;
  } else if (length < longest_) {
    shorter_ = build(length, holder_.get());
  }
  length_ = length;
}

bool Scorer::has_order_head() const {
  return holder_->result(0, ResultOutput::order_logits) != nullptr;
}

void Scorer::check(const ScoredSequence& sequence, const std::string& where) const {
  check_sequence(sequence, model_.config().model, where);
  if (sequence.token_types.empty()) return;
  if (!holder_->batch(0, BatchInput::segments))
    fail_input("{} has token types, but the model has none", where);
  check_token_types(sequence, where);
}

void Scorer::run(const ScoredSequence& sequence) {
  used_ = static_cast<std::int64_t>(sequence.ids.size());
  prepare(used_);
  load_batch(stage(), 0, batch_of(sequence, length_, model_.config().model));
  stage().evaluate();
}

void Scorer::rows(std::int64_t first, const UseRow& use) const {
  const ModelConfig& m = model_.config().model;
  read_rows(stage(), ResultOutput::logits, first, used_, m.vocab_size, padded_vocabulary(m), use);
}

std::vector<float> Scorer::order_logits() const {
  std::vector<float> logits;
  read_rows(
      stage(), ResultOutput::order_logits, 0, 1, 2, 2,
      [&](std::int64_t, std::span<const float> row) { logits.assign(row.begin(), row.end()); });
  return logits;
}

// Attention is causal, so sequences are padded to a few distinct lengths.
Likelihood Scorer::likelihood(const std::vector<std::int32_t>& ids, std::int64_t given,
                              const std::string& where) {
  constexpr std::int64_t step = 32;
  model_.require_next_token();
  const ModelConfig& m = model_.config().model;
  check_sequence({{ids.back()}, {}}, m, where);
  ScoredSequence inputs{{ids.begin(), ids.end() - 1}, {}};
  if (inputs.ids.empty()) return {};
  check_sequence(inputs, m, where);
  used_ = static_cast<std::int64_t>(inputs.ids.size());
  std::int64_t length = round_up(used_, step);
  if (m.position == PositionEncoding::learned) length = std::min(length, m.max_positions);
  prepare(length);
  load_batch(stage(), 0, batch_of(inputs, length_, m));
  stage().evaluate();
  Likelihood result;
  rows(given - 1, [&](std::int64_t position, std::span<const float> logits) {
    const std::int32_t id = ids[static_cast<std::size_t>(position + 1)];
    result.log += log_probability(logits, id);
    result.greedy = result.greedy && std::ranges::max_element(logits) - logits.begin() == id;
  });
  return result;
}

}  // namespace trireme
