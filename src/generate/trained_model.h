// A trained model from a checkpoint, ready to be built for scoring, evaluation or generation.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/reader.h"
#include "config/config.h"
#include "model/transformer.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

class TrainedModel {
 public:
  // `path`: a run's folder, a folder of checkpoints or one checkpoint. `overrides` change the
  // configuration that the checkpoint carries ("data.vocab_file=...", "run.precision=fp32").
  explicit TrainedModel(const fs::path& path, const std::vector<std::string>& overrides = {});

  const Config& config() const { return config_; }
  std::int64_t step() const { return reader_.state().step; }
  const fs::path& folder() const { return reader_.folder(); }
  // Made at the first call, from the copies in the run's folder where it has them. Fails with exit
  // code 2 where the configuration names no tokenizer.
  const Tokenizer& tokenizer();
  // The tokens that end a sequence by the configuration of an imported model; otherwise none.
  std::vector<std::int32_t> imported_end_ids() const;

  // Fails with exit code 2 where the model does not predict the next token, as BERT does not.
  void require_next_token() const;

  // Plans, allocates and fills a stage; with `shares` the weights of that one are used. The compute
  // type is the run's.
  std::unique_ptr<Stage> build(BuildOptions options, const Stage* shares = nullptr);

 private:
  CheckpointReader reader_;
  Config config_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace trireme
