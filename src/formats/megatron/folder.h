// Legacy checkpoints of Megatron-LM: mp_rank_TT[_PPP]/model_optim_rng.pt, one file for each rank of
// tensor and pipeline parallelism.
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
  // Opens the files of all ranks of the step that latest_checkpointed_iteration.txt names, or of
  // the step whose folder this is. Refused (exit code 2): ranks that are missing, that were saved
  // at different steps or for different layouts, checkpoints of other formats.
  explicit MegatronFolder(const fs::path& folder);

  bool is_core() const override;
  bool is_bert() const override;
  std::int64_t vocabulary_rows() const override;
  std::unique_ptr<JoinedTensors> join(const ModelConfig& model) override;
  std::optional<Progress> progress() const override { return progress_; }
  std::string note() const override { return note_; }

 private:
  struct Chunk {  // of the layers, one after the other in the model
    int stage = 0;
    std::string key;                       // "model", "model0"
    std::vector<const WeightFile*> ranks;  // of tensor parallelism
    std::int64_t first_layer = 0, layers = 0;
    std::vector<MegatronChunkStates> states;  // by rank, or none
  };
  struct Found;

  void find_ranks(const fs::path& step);
  void open_ranks(const fs::path& step);
  void check_order() const;
  void find_chunks();
  void count_layers();
  void read_states();
  void set_progress(std::int64_t steps);
  // What the optimizer keeps of a tensor: a moment, or the weight in fp32 (-1), which is that of
  // the model where it has it in fp32.
  static RankParts state_parts(const Chunk& chunk, const RankParts& weights, int which);
  const TorchFile& rank(int stage, int tensor_rank) const {
    return *ranks_[static_cast<std::size_t>(stage * tp_ + tensor_rank)];
  }
  std::vector<Found> find_tensors(const Chunk& chunk) const;
  void require_copies(const std::vector<Found>& copies) const;
  RowOrder head_order(const ModelConfig& model) const;

  int tp_ = 0, pp_ = 0;
  std::vector<std::shared_ptr<const TorchFile>> ranks_;  // tensor ranks of the first stage first
  std::unique_ptr<JoinedTensors> joined_;
  std::vector<Chunk> chunks_;
  std::optional<Progress> progress_;
  std::string note_;
};

}  // namespace trireme
