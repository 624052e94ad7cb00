// The names of parameters in the checkpoints of Megatron-DeepSpeed as ours.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/megatron/names.h"

namespace trireme {

// A model in a pipeline is a list of numbered modules, some of which have no parameters: its
// parameters are called "3.mlp.dense_h_to_4h.weight", and
// "tied_modules.embed.word_embeddings.weight" where two stages share them. What a number is, is
// told by the names below it. A model without a pipeline has Megatron's own names.
class DeepspeedNames {
 public:
  DeepspeedNames() = default;
  // Of all parameters of all stages.
  explicit DeepspeedNames(const std::vector<std::string>& theirs);

  MegatronName ours(std::string_view theirs) const;
  std::int64_t layers() const { return layers_; }

 private:
  std::map<int, std::string> prefixes_;  // by number, of Megatron's names
  std::int64_t layers_ = 0;
};

// The numbers in a name that is like `pattern`, where each '#' stands for one; none where the name
// is not like it.
std::vector<int> numbers_in(std::string_view name, std::string_view pattern);

}  // namespace trireme
