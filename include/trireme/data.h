// Samples to learn from, made by a program.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <trireme/export.h>

namespace trireme::v1 {

// One sample, to be filled in: model.seq_length elements each, in memory of the trainer's. All
// token ids are in [0, model.vocab_size).
struct TRIREME_API Sample {
  std::span<std::int32_t> tokens;     // inputs; 0 at first
  std::span<std::int32_t> targets;    // what each position shall predict; 0 at first
  std::span<float> loss_weights;      // 1: counts, as at first; 0: does not (padding, a prompt)
  std::span<std::int32_t> positions;  // 0, 1, 2 ... at first; others need data.reset_position_ids
  std::span<std::int32_t> first_visible;  // the first position that each one may attend to: 0 at
                                          // first; others need data.reset_attention_mask

  // Tokens and targets from a text of tokens: position i predicts text[i + 1]. Positions that have
  // nothing to predict get weight 0; tokens beyond model.seq_length + 1 are left out.
  void predict_next(std::span<const std::int32_t> text);
};

// A fixed, ordered list of samples. A step takes the next train.global_batch_size of them, whatever
// the number of processes: sample i of the run is sample i here. So that a resumed run gives the
// same bits, a sample must depend on nothing but its index.
class TRIREME_API Dataset {
 public:
  virtual ~Dataset();

  // At least as many samples as the run takes: refused otherwise when the trainer is made. To go
  // through fewer ones several times, take the index modulo their number.
  virtual std::int64_t size() const = 0;

  // Writes sample `index` of [0, size()). Called from other threads than the trainer's, from
  // several at once, and ahead of training. What it throws comes out of Trainer::train_step(). Ids,
  // weights and positions outside their range are refused there, with the number of the sample.
  virtual void fill(std::int64_t index, Sample& sample) const = 0;

  // What tells this list from another one: a run that resumes with another identity warns. By
  // default nothing but the size does.
  virtual std::string identity() const { return ""; }
};

}  // namespace trireme::v1
