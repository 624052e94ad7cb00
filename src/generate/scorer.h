// Scores token sequences with a trained model whose weights stay in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generate/trained_model.h"

namespace trireme {

struct ScoredSequence {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> token_types;  // bert: 0 or 1 for each id; empty: all 0
};

// Rejects (exit code 2) ids and lengths invalid for the model, naming the sequence `where`.
void check_sequence(const ScoredSequence& sequence, const ModelConfig& model,
                    const std::string& where);

// Likelihood of a sequence's tokens from a given one on, each conditioned on all previous tokens.
struct Likelihood {
  double log = 0;      // sum of natural log probabilities
  bool greedy = true;  // whether each token is the most likely one
};

// Builds one stage per length: group sequences of the same length together.
class Scorer {
 public:
  // Reads the weights. `longest`: length of the longest expected sequence; a longer one causes the
  // weights to be read again.
  Scorer(TrainedModel& model, std::int64_t longest);

  bool has_order_head() const;
  // Runs check_sequence(), and rejects token types for a model without them.
  void check(const ScoredSequence& sequence, const std::string& where) const;

  // Runs a sequence that passed check(). Results are valid until the next call.
  void run(const ScoredSequence& sequence);
  // Calls use(position, logits [vocab_size]) for the positions from `first` on.
  using UseRow = std::function<void(std::int64_t position, std::span<const float> logits)>;
  void rows(std::int64_t first, const UseRow& use) const;
  std::vector<float> order_logits() const;  // [2]; of a model with a sentence-order head

  // Scores the tokens from index `given` on (at least 1); the last token is only predicted. Rejects
  // (exit code 2) models without next-token prediction, and ids that are out of range, naming the
  // sequence `where`.
  Likelihood likelihood(const std::vector<std::int32_t>& ids, std::int64_t given,
                        const std::string& where);

 private:
  std::unique_ptr<Stage> build(std::int64_t length, const Stage* shares) const;
  void prepare(std::int64_t length);
  Stage& stage() const { return shorter_ ? *shorter_ : *holder_; }

  TrainedModel& model_;
  std::unique_ptr<Stage> holder_, shorter_;  // for the longest length; for the current length
  std::int64_t longest_, length_;
  std::int64_t used_ = 0;  // tokens of the current sequence
};

}  // namespace trireme
