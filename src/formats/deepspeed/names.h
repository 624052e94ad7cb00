// Maps parameter names of Megatron-DeepSpeed checkpoints to ours.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/megatron/names.h"

namespace trireme {

// A pipeline model is a list of numbered modules, some without parameters: parameters are named
// "3.mlp.dense_h_to_4h.weight", or "tied_modules.embed.word_embeddings.weight" if two stages share
// them. The parameter names below a number tell what the module is. A model without a pipeline has
// Megatron's own names.
class DeepspeedNames {
 public:
  DeepspeedNames() = default;
  // `theirs`: names of all parameters of all stages.
  explicit DeepspeedNames(const std::vector<std::string>& theirs);

  MegatronName ours(std::string_view theirs) const;
  std::int64_t layers() const { return layers_; }

 private:
  std::map<int, std::string> prefixes_;  // of Megatron's names, by module number
  std::int64_t layers_ = 0;
};

// The numbers in a name that matches `pattern`, in which each '#' stands for a number; empty if the
// name does not match.
std::vector<int> numbers_in(std::string_view name, std::string_view pattern);

}  // namespace trireme
