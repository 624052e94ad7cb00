// A trained model loaded from a checkpoint, for scoring, evaluation or generation.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/reader.h"
#include "config/config.h"
#include "data/batch.h"
#include "model/transformer.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Positions of a row of a batch for a sequence of `length` positions, before any padding, as a
// stage of TrainedModel::build() expects them.
void set_positions(Batch& batch, std::int64_t row, std::int64_t length, const ModelConfig& model);

// Rejects (exit code 2) lengths beyond model.max_positions where their rotary positions are not
// defined by the length alone, naming the sequence `where`.
void check_scaled_length(const ModelConfig& model, std::int64_t length, const std::string& where);

class TrainedModel {
 public:
  // `path`: a run's folder, a folder of checkpoints or one checkpoint. `overrides` change the
  // configuration stored in the checkpoint ("data.vocab_file=...", "run.precision=fp32").
  explicit TrainedModel(const fs::path& path, const std::vector<std::string>& overrides = {});

  const Config& config() const { return config_; }
  std::int64_t step() const { return reader_.state().step; }
  const fs::path& folder() const { return reader_.folder(); }
  // Created on the first call, from the copies in the run's folder if they exist. Fails with exit
  // code 2 if the configuration names no tokenizer.
  const Tokenizer& tokenizer();
  // End-of-sequence ids from the configuration of an imported model; otherwise none.
  std::vector<std::int32_t> imported_end_ids() const;

  // Fails with exit code 2 for models without next-token prediction, such as BERT.
  void require_next_token() const;

  // Plans, allocates and fills a stage, sharing the weights of `shares` if given. The compute type
  // is the run's.
  std::unique_ptr<Stage> build(BuildOptions options, const Stage* shares = nullptr);

 private:
  CheckpointReader reader_;
  Config config_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace trireme
