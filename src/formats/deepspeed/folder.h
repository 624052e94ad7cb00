// Checkpoints of Megatron-DeepSpeed: layer_NN-model_TT-model_states.pt of pipelines,
// mp_rank_XX_model_states.pt, and the files of ZeRO's ranks or, in universal checkpoints, zero/.
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
  // Opens the step that `latest` names (or, without it, latest_universal), or the step whose folder
  // this is. Refused (exit code 2):
  // files that are missing or of different steps, experts, models without Megatron's arguments.
  explicit DeepspeedFolder(const fs::path& folder);

  bool is_bert() const override;
  std::int64_t vocabulary_rows() const override;
  bool strips_padding() const override { return strips_padding_; }
  std::unique_ptr<JoinedTensors> join(const ModelConfig& model) override;
  std::optional<Progress> progress() const override { return progress_; }
  std::string note() const override { return note_; }

 private:
  using File = std::shared_ptr<const TorchFile>;
  // A parameter on the ranks of tensor parallelism, as it was saved in the type of the model; empty
  // where it lies in the files of ZeRO alone.
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
  int saved_tp_ = 1;          // of the run, where a universal checkpoint has joined its ranks
  std::vector<File> models_;  // by rank of model parallelism
  DeepspeedFiles files_;
  std::vector<std::vector<std::string>> names_;  // of parameters, by stage
  std::vector<ZeroStates> states_;               // by rank of model parallelism
  Parts parts_;                                  // by their name
  std::vector<NamedWeights> in_order_;  // by tensor rank: of all its modules, as the model has them
  DeepspeedNames table_;
  std::map<std::string, const RankParts*> saved_;  // of parts_, by our name
  std::unique_ptr<JoinedTensors> joined_;
  std::optional<Progress> progress_;
  bool universal_ = false, strips_padding_ = false;
  std::string note_;
};

}  // namespace trireme
