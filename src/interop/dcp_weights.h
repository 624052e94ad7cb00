// The tensors of a folder of torch.distributed.checkpoint as parts of whole ones.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "interop/joined_tensors.h"
#include "torch/dcp_folder.h"

namespace trireme {

class DcpWeights : public WeightFile {
 public:
  explicit DcpWeights(std::shared_ptr<const DcpFolder> folder);

  const DcpFolder& folder() const { return *folder_; }
  // A tensor under another name. Refused (exit code 2): parts that overlap or leave a hole, parts
  // that are not rectangles of the tensor read as a matrix.
  JoinedTensor whole(const DcpTensor& tensor, const std::string& name) const;

  void read(const WeightEntry& chunk, std::int64_t begin, std::int64_t end,
            std::byte* dst) const override;

 private:
  struct Place {
    const DcpTensor* tensor;
    const DcpChunk* chunk;
  };
  static std::vector<Place> places(const DcpFolder& folder);
  static std::vector<WeightEntry> entries(const std::vector<Place>& places);
  DcpWeights(std::shared_ptr<const DcpFolder> folder, std::vector<Place> places);

  std::shared_ptr<const DcpFolder> folder_;
  std::vector<Place> places_;                      // by entry
  std::map<const DcpTensor*, std::size_t> first_;  // entry of a tensor
};

}  // namespace trireme
