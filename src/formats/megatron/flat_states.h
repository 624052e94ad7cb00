// The states of Megatron-Core's distributed optimizer as its flat buffers have them: in folders of
// torch_dist by default (the type dp_reshardable).
#pragma once

#include <array>
#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dcp/folder.h"
#include "formats/megatron/packing.h"
#include "formats/weight_file.h"
#include "tensors/optimizer_states.h"

namespace trireme {

// What a rank of tensor parallelism has of all parameters, under their full names
// ("layers.3.mlp.up.weight"), in fp32: the weights, and Adam's moments.
struct MegatronFlatRank {
  std::unique_ptr<WeightFile> weights;
  std::array<std::unique_ptr<WeightFile>, adam_moments> moments;
  // -1: the weights.
  const WeightFile& file(int moment) const {
    return moment < 0 ? *weights : *moments[static_cast<std::size_t>(moment)];
  }
};

// A part of a buffer that lies in tensors of its own: the weights, and the moments.
struct MegatronBucket {
  std::array<const DcpTensor*, 1 + adam_moments> tensors{};
  std::int64_t count() const { return tensors[0]->shape[0]; }
};

// Of a chunk of layers on a group of ranks that share the states of the same parameters.
struct MegatronBufferId {
  std::int64_t group = 0, chunk = 0;
  auto operator<=>(const MegatronBufferId&) const = default;
};

class MegatronFlatBuffers {
 public:
  // Finds the buffers of all ranks, `tp` of tensor parallelism.
  MegatronFlatBuffers(std::shared_ptr<const DcpFolder> folder, std::int64_t tp);

  // Whether a tensor of the folder is one of a buffer.
  static bool is_one(std::string_view name);
  // Why they are not read, or "".
  const std::string& fault() const { return fault_; }
  // The names of the values that hold what is said of each group of ranks ("param_groups").
  std::vector<std::string> group_values() const;

  // The states of the parameters if all ranks pack them in this order, by rank; nothing where they
  // then do not fill the buckets exactly. Only a fit of sizes: whether the weights are those of the
  // model has to be looked at.
  std::optional<std::vector<MegatronFlatRank>> placed(const MegatronParameters& parameters,
                                                      MegatronOrder order) const;

 private:
  std::string find_buckets();
  std::string check_buckets();

  std::shared_ptr<const DcpFolder> folder_;
  std::int64_t tp_, stages_ = 0, chunks_ = 0;  // chunks of layers on a stage
  std::map<MegatronBufferId, std::vector<MegatronBucket>> buffers_;
  std::string fault_;
};

}  // namespace trireme
