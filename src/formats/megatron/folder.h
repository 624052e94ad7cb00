// Legacy Megatron-LM checkpoints: mp_rank_TT[_PPP]/model_optim_rng.pt, one file per tensor- and
// pipeline-parallel rank.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/megatron/checkpoint.h"
#include "formats/megatron/optimizer.h"
#include "formats/megatron/step.h"

namespace trireme {

class MegatronFolder : public MegatronCheckpoint {
 public:
  // Opens all ranks' files of the step named by latest_checkpointed_iteration.txt, or of the step
  // in `folder` itself. Refused (exit code 2): missing ranks, ranks saved at different steps or for
  // different layouts, other checkpoint formats.
  explicit MegatronFolder(const fs::path& folder);

  bool is_core() const override;
  bool is_bert() const override;
  std::int64_t vocabulary_rows() const override;
  std::unique_ptr<JoinedTensors> join(const ModelConfig& model) override;
  std::optional<Progress> progress() const override { return progress_; }
  std::string note() const override { return note_; }

 private:
  struct Chunk {  // model chunk, in the model's order
    int stage = 0;
    std::string key;                       // "model", "model0"
    std::vector<const WeightFile*> ranks;  // by tensor-parallel rank
    std::int64_t first_layer = 0, layers = 0;
    std::vector<MegatronChunkStates> states;  // by rank, or empty
  };
  struct Found;

  void find_ranks(const fs::path& step);
  void open_ranks(const fs::path& step);
  void check_order() const;
  void find_chunks();
  void count_layers();
  void read_states();
  void set_progress(std::int64_t steps);
  // Optimizer state of a tensor: a moment, or the fp32 weight (-1), which is the model's own weight
  // if that is fp32.
  static RankParts state_parts(const Chunk& chunk, const RankParts& weights, int which);
  const TorchFile& rank(int stage, int tensor_rank) const {
    return *ranks_[static_cast<std::size_t>(stage * tp_ + tensor_rank)];
  }
  std::vector<Found> find_tensors(const Chunk& chunk) const;
  void require_copies(const std::vector<Found>& copies) const;
  RowOrder head_order(const ModelConfig& model) const;

  int tp_ = 0, pp_ = 0;
  std::vector<std::shared_ptr<const TorchFile>> ranks_;  // by stage, then tensor-parallel rank
  std::unique_ptr<JoinedTensors> joined_;
  std::vector<Chunk> chunks_;
  std::optional<Progress> progress_;
  std::string note_;
};

}  // namespace trireme
