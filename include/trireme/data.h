// Datasets of training samples defined by a program.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <trireme/export.h>

namespace trireme::v1 {

// One sample to be filled in: arrays of model.seq_length elements in the trainer's memory, valid
// only during fill(). All token ids are in [0, model.vocab_size).
struct TRIREME_API Sample {
  std::span<std::int32_t> tokens;     // input ids; initially 0
  std::span<std::int32_t> targets;    // id that each position predicts (shifted); initially 0;
                                      // with model.mtp_layers always the next position's token
  std::span<float> loss_weights;      // loss mask: 1 (initially), or 0 (padding, a prompt)
  std::span<std::int32_t> positions;  // initially 0, 1, 2 ...; others need data.reset_position_ids
  std::span<std::int32_t> first_visible;  // first position that each may attend to; initially 0,
                                          // others need data.reset_attention_mask

  // Fills tokens and targets from the ids of a text: position i predicts text[i + 1]. Positions
  // with nothing to predict get weight 0; ids beyond model.seq_length + 1 are dropped.
  void predict_next(std::span<const std::int32_t> text);
};

// A fixed, ordered list of samples. A step takes the next train.global_batch_size of them, for any
// number of processes: sample i of the run is sample i here. A sample must depend only on its
// index, so that a resumed run produces the same bits.
class TRIREME_API Dataset {
 public:
  virtual ~Dataset();

  // Number of samples. The constructor of Trainer rejects fewer than the run takes. For several
  // epochs, return a larger number and take the index modulo the number of distinct samples.
  virtual std::int64_t size() const = 0;

  // Writes sample `index`, in [0, size()). Must be thread-safe: background threads call it
  // concurrently, ahead of training. Trainer::train_step() rethrows its exceptions, and rejects
  // ids, weights and positions out of range, with the number of the sample.
  virtual void fill(std::int64_t index, Sample& sample) const = 0;

  // Distinguishes this dataset from others: a run that resumes with another identity or size
  // warns. By default only the size distinguishes datasets.
  virtual std::string identity() const { return ""; }
};

}  // namespace trireme::v1
