// Base of Megatron-family checkpoints: the run's arguments, which describe the model, and tensors
// with Megatron's names.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "formats/joined_tensors.h"
#include "formats/megatron/names.h"
#include "formats/torch/file.h"

namespace trireme {

// An argument of the run, formatted as in Python: "True", "4096", "rope".
struct MegatronArgument {
  std::string name, value;
};
// All arguments under "args" in a torch.save file, except those that are None; empty if the file
// has no arguments.
std::vector<MegatronArgument> megatron_arguments(const TorchFile& file, PickleId root);

// Refused (exit code 2): rank files that were not saved together, because values of these keys, or
// arguments for the layout and the size of the model, differ.
void require_one_step(const std::vector<std::shared_ptr<const TorchFile>>& ranks,
                      std::initializer_list<const char*> keys);

class MegatronCheckpoint {
 public:
  virtual ~MegatronCheckpoint() = default;

  const std::string& where() const { return where_; }
  // An argument of the run, formatted as in Python; nullopt if absent or None.
  std::optional<std::string> argument(std::string_view name) const;
  std::optional<double> number_argument(std::string_view name) const;
  std::vector<MegatronArgument> arguments() const;
  // A count. Refused (exit code 2): one that is negative, fractional or above 10^15.
  std::optional<std::int64_t> count_argument(std::string_view name) const;

  // Whether the model is from Megatron-Core, which ignores some of the arguments.
  virtual bool is_core() const { return false; }
  // Whether the model predicts masked words.
  virtual bool is_bert() const = 0;
  // Embedding rows summed over all ranks.
  virtual std::int64_t vocabulary_rows() const = 0;
  // Whether these exclude vocabulary padding.
  virtual bool strips_padding() const { return false; }

  // Joins all ranks' tensors under our names; may be called once. Adam states, if present, are
  // included under moment_name(). Refused (exit code 2): tensors without a name in ours, copies
  // that differ.
  virtual std::unique_ptr<JoinedTensors> join(const ModelConfig& model) = 0;

  // Position of the run; known after join().
  struct Progress {
    std::int64_t step = 0, optimizer_steps = 0;
  };
  virtual std::optional<Progress> progress() const { return std::nullopt; }
  // A note for the user on the source of the tensors, or ""; known after join().
  virtual std::string note() const { return ""; }

 protected:
  explicit MegatronCheckpoint(std::string where) : where_(std::move(where)) {}
  // Sets the value that holds the arguments as its "args".
  void set_arguments(std::shared_ptr<const TorchFile> file, PickleId root);
  bool has_arguments() const { return file_->pickle().find(root_, "args").has_value(); }
  // Gives arguments that the files do not hold.
  void describe(std::optional<std::vector<MegatronArgument>> arguments) {
    described_ = std::move(arguments);
  }
  // Checks the arguments against the number of layers in the tensors.
  void check_layers(std::int64_t layers) const;
  std::string where_;

 private:
  std::shared_ptr<const TorchFile> file_;
  PickleId root_ = 0;
  std::optional<std::vector<MegatronArgument>> described_;
};

// Joins the tensor-parallel shards of a tensor. `heads` is the order of queries, keys and values in
// the files.
JoinedTensor join_megatron_parts(const std::string& name, MegatronCut cut, const RankParts& parts,
                                 const ModelConfig& model, const RowOrder& heads = {});

// Our name of a tensor: "embedding.word.weight", "layers.3.attention.qkv.weight".
std::string full_name(const MegatronName& name, std::int64_t first_layer = 0);

// Refused (exit code 2): a tensor without a name in ours.
[[noreturn]] void refuse_megatron_tensor(const std::string& file, const std::string& name,
                                         const std::string& shape);

}  // namespace trireme
