// Common to checkpoints of Megatron's family, whatever their files: the arguments of the run, which
// describe the model, and tensors with Megatron's names.
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

// An argument of the run as Python shows it: "True", "4096", "rope".
struct MegatronArgument {
  std::string name, value;
};
// All that a file of torch.save has under "args", but for those that are None; none where it has no
// arguments.
std::vector<MegatronArgument> megatron_arguments(const TorchFile& file, PickleId root);

// Refused (exit code 2): files of ranks that were not saved together, since values with these keys,
// or arguments that say the layout and the size of the model, differ.
void require_one_step(const std::vector<std::shared_ptr<const TorchFile>>& ranks,
                      std::initializer_list<const char*> keys);

class MegatronCheckpoint {
 public:
  virtual ~MegatronCheckpoint() = default;

  const std::string& where() const { return where_; }
  // An argument of the run as Python shows it, or nothing where it is absent or None.
  std::optional<std::string> argument(std::string_view name) const;
  std::optional<double> number_argument(std::string_view name) const;
  std::vector<MegatronArgument> arguments() const { return megatron_arguments(*file_, root_); }
  // A number of things. Refused (exit code 2): one that is negative, not whole or above 10^15.
  std::optional<std::int64_t> count_argument(std::string_view name) const;

  // Whether its model is one of Megatron-Core, which leaves some of the arguments unread.
  virtual bool is_core() const { return false; }
  // Whether its model predicts masked words.
  virtual bool is_bert() const = 0;
  // Rows of the embedding in all ranks.
  virtual std::int64_t vocabulary_rows() const = 0;
  // Whether these are without the rows that pad it.
  virtual bool strips_padding() const { return false; }

  // The tensors of all ranks under our names; may be called once. Where the states of Adam came
  // along they are there too, as moment_name() calls them. Refused (exit code 2): tensors without a
  // name of ours, copies that differ.
  virtual std::unique_ptr<JoinedTensors> join(const ModelConfig& model) = 0;

  // Where the run was; known after join().
  struct Progress {
    std::int64_t step = 0, optimizer_steps = 0;
  };
  virtual std::optional<Progress> progress() const { return std::nullopt; }
  // What the user should know of where the tensors came from, or ""; known after join().
  virtual std::string note() const { return ""; }

 protected:
  explicit MegatronCheckpoint(std::string where) : where_(std::move(where)) {}
  // The value that has the arguments as its "args".
  void set_arguments(std::shared_ptr<const TorchFile> file, PickleId root);
  // Of the number of layers that the tensors have.
  void check_layers(std::int64_t layers) const;

  std::string where_;

 private:
  std::shared_ptr<const TorchFile> file_;
  PickleId root_ = 0;
};

// Joins what ranks of tensor parallelism hold of a tensor. `heads` is the order of queries, keys
// and values in the files.
JoinedTensor join_megatron_parts(const std::string& name, MegatronCut cut, const RankParts& parts,
                                 const ModelConfig& model, const RowOrder& heads = {});

// "embedding.word.weight", "layers.3.attention.qkv.weight".
std::string full_name(const MegatronName& name, std::int64_t first_layer = 0);

// Refused (exit code 2): a tensor that has no name of ours.
[[noreturn]] void refuse_megatron_tensor(const std::string& file, const std::string& name,
                                         const std::string& shape);

}  // namespace trireme
