// Megatron-Core distributed checkpoints (--ckpt-format torch_dist): a torch.distributed.checkpoint
// folder with Megatron's names, and the run's arguments in common.pt.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/dcp/weights.h"
#include "formats/megatron/checkpoint.h"
#include "formats/megatron/flat_states.h"

namespace trireme {

// Whether the folder looks like such a run or one of its steps.
bool is_torch_dist_folder(const fs::path& folder);

class TorchDistFolder : public MegatronCheckpoint {
 public:
  // Arguments that a file beside a step stands for; nullopt without such a file.
  using Describe = std::function<std::optional<std::vector<MegatronArgument>>(const fs::path&)>;
  // Opens the step named by latest_checkpointed_iteration.txt, or the step in `folder` itself.
  // `describe` is asked for the arguments of a step that holds none. Refused (exit code 2): other
  // backends than torch_dist, missing files, tensors without a name in ours.
  explicit TorchDistFolder(const fs::path& folder, const Describe& describe = nullptr);

  bool is_core() const override { return true; }
  bool is_bert() const override;
  std::int64_t vocabulary_rows() const override;
  std::unique_ptr<JoinedTensors> join(const ModelConfig& model) override;
  std::optional<Progress> progress() const override { return progress_; }
  std::string note() const override { return note_; }

 private:
  struct Found {
    const DcpTensor* tensor;
    MegatronName how;
    bool stacked;  // contains all layers
  };
  // Newer versions wrap values in lists of one element.
  static PickleId only_child(const Pickle& pickle, PickleId id);
  void read_arguments(const Describe& describe);
  void find_tensors();
  void find_states();
  std::optional<std::int64_t> optimizer_steps() const;
  std::string unusable_states() const;
  void leave_out_states(const std::string& why);
  std::vector<JoinedTensor> joined(const Found& found, const DcpTensor& tensor, int moment) const;
  const DcpTensor& exact(const Found& found) const;
  const DcpTensor* find_other_weights(const ModelConfig& model) const;
  void add_with_states(const ModelConfig& model);
  // Returns false, with a note, if the states are not where they are expected.
  bool add_flat_states(const ModelConfig& model);
  static bool is_copy(const Found& found, const ModelConfig& model);
  MegatronParameters megatron_parameters(const ModelConfig& model) const;
  void require_copy_of_words(const DcpTensor& head, const ModelConfig& model) const;
  // Optimizer state of a tensor, such as "exp_avg"; nullptr if it does not exist.
  const DcpTensor* state(const std::string& kind, const DcpTensor& tensor) const;
  const DcpTensor& words() const;

  std::shared_ptr<const DcpFolder> dcp_;
  std::shared_ptr<const TorchFile> common_;
  PickleId root_ = 0;  // of common_
  std::vector<Found> found_;
  std::int64_t layers_ = 0;
  std::unique_ptr<JoinedTensors> joined_;
  const DcpWeights* weights_ = nullptr;
  std::unique_ptr<MegatronFlatBuffers> flat_;  // if the states are in flat buffers
  std::optional<Progress> progress_;
  std::string note_;
};

}  // namespace trireme
