// Megatron-DeepSpeed checkpoints: layer_NN-model_TT-model_states.pt of pipelines,
// mp_rank_XX_model_states.pt, and the ZeRO ranks' files or, in universal checkpoints, zero/.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/deepspeed/names.h"
#include "formats/deepspeed/optimizer.h"
#include "formats/deepspeed/step.h"
#include "formats/megatron/checkpoint.h"
#include "formats/zero_states.h"

namespace trireme {

class DeepspeedFolder : public MegatronCheckpoint {
 public:
  // Opens the step named by `latest` (or, without it, latest_universal), or the step in `folder`
  // itself. Refused (exit code 2): missing files or files of different steps, experts, models
  // without Megatron's arguments.
  explicit DeepspeedFolder(const fs::path& folder);

  bool is_bert() const override;
  std::int64_t vocabulary_rows() const override;
  bool strips_padding() const override { return strips_padding_; }
  std::unique_ptr<JoinedTensors> join(const ModelConfig& model) override;
  std::optional<Progress> progress() const override { return progress_; }
  std::string note() const override { return note_; }

 private:
  using File = std::shared_ptr<const TorchFile>;
  // Shards of a parameter across tensor-parallel ranks, as saved in the model's type; empty if it
  // is stored only in the ZeRO files.
  using Parts = std::map<std::string, RankParts>;

  void find_files();
  void find_layers();
  void find_modules();
  void add_parts(const std::string& prefix, const std::vector<const WeightFile*>& ranks);
  void find_states();
  void find_plain_states();
  void add_states(ZeroStates states);
  void list_names();
  void find_universal();
  void check_words();
  void read_progress();
  RankParts state_parts(int stage, const std::string& name, int which) const;
  bool is_unused_copy(const std::string& name) const;
  void check_against_states(int stage, const std::string& name) const;
  void add(JoinedTensors& out, const std::string& theirs, const RankParts& parts,
           const ModelConfig& model, int which) const;
  std::size_t rank(int stage, int tensor_rank) const {
    return static_cast<std::size_t>(stage * tp_ + tensor_rank);
  }

  int tp_ = 1, pp_ = 1;
  int saved_tp_ = 1;          // of the run, if a universal checkpoint joined its ranks
  std::vector<File> models_;  // by model-parallel rank
  DeepspeedFiles files_;
  std::vector<std::vector<std::string>> names_;  // of the parameters, by stage
  std::vector<ZeroStates> states_;               // by model-parallel rank
  Parts parts_;                                  // by parameter name
  std::vector<NamedWeights> in_order_;  // by tensor-parallel rank: all modules in the model's order
  DeepspeedNames table_;
  std::map<std::string, const RankParts*> saved_;  // of parts_, by our name
  std::unique_ptr<JoinedTensors> joined_;
  std::optional<Progress> progress_;
  bool universal_ = false, strips_padding_ = false;
  std::string note_;
};

}  // namespace trireme
