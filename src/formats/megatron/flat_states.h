// States of Megatron-Core's distributed optimizer stored as flat buffers, the default in torch_dist
// folders (type dp_reshardable).
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

// A tensor-parallel rank's fp32 shards of all parameters, by full name ("layers.3.mlp.up.weight"):
// weights and Adam moments.
struct MegatronFlatRank {
  std::unique_ptr<WeightFile> weights;
  std::array<std::unique_ptr<WeightFile>, adam_moments> moments;
  // Moment -1 is the weights.
  const WeightFile& file(int moment) const {
    return moment < 0 ? *weights : *moments[static_cast<std::size_t>(moment)];
  }
};

// A bucket of a buffer, stored as separate tensors for weights and moments.
struct MegatronBucket {
  std::array<const DcpTensor*, 1 + adam_moments> tensors{};
  std::int64_t count() const { return tensors[0]->shape[0]; }
};

// The buffer of a model chunk in a group of ranks that share the states of the same parameters.
struct MegatronBufferId {
  std::int64_t group = 0, chunk = 0;
  auto operator<=>(const MegatronBufferId&) const = default;
};

class MegatronFlatBuffers {
 public:
  // Finds the buffers of all ranks; `tp` is the tensor-parallel size.
  MegatronFlatBuffers(std::shared_ptr<const DcpFolder> folder, std::int64_t tp);

  // Whether a tensor of the folder belongs to a buffer.
  static bool is_one(std::string_view name);
  // Returns why the buffers are not read, or "".
  const std::string& fault() const { return fault_; }
  // Names of the values that hold the settings of each rank group ("param_groups").
  std::vector<std::string> group_values() const;

  // Each rank's parameter states, assuming that all ranks pack parameters in this order; nullopt if
  // they do not fill the buckets exactly. This matches sizes only: the caller must check that the
  // weights equal the model's.
  std::optional<std::vector<MegatronFlatRank>> placed(const MegatronParameters& parameters,
                                                      MegatronOrder order) const;

 private:
  std::string find_buckets();
  std::string check_buckets();

  std::shared_ptr<const DcpFolder> folder_;
  std::int64_t tp_, stages_ = 0, chunks_ = 0;  // model chunks per stage
  std::map<MegatronBufferId, std::vector<MegatronBucket>> buffers_;
  std::string fault_;
};

}  // namespace trireme
