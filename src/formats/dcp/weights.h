// The tensors of a folder of torch.distributed.checkpoint as parts of whole ones.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/dcp/folder.h"
#include "formats/joined_tensors.h"

namespace trireme {

class DcpWeights : public WeightFile {
 public:
  // `is_stacked` tells the tensors that layers() is for; none: there are no such tensors.
  using IsStacked = bool (*)(const DcpTensor&);
  explicit DcpWeights(std::shared_ptr<const DcpFolder> folder, IsStacked is_stacked = nullptr);

  const DcpFolder& folder() const { return *folder_; }
  // A tensor under another name. Refused (exit code 2): parts that overlap or leave a hole, parts
  // that are not rectangles of the tensor read as a matrix.
  JoinedTensor whole(const DcpTensor& tensor, const std::string& name) const;
  // A tensor whose first dimension counts layers, as one tensor for each of them. Refused (exit
  // code 2): what whole() refuses, parts of several layers.
  std::vector<JoinedTensor> layers(const DcpTensor& tensor,
                                   const std::vector<std::string>& names) const;

  void read(const WeightEntry& chunk, std::int64_t begin, std::int64_t end,
            std::byte* dst) const override;

 private:
  struct Place {
    const DcpTensor* tensor;
    const DcpChunk* chunk;
  };
  static std::vector<Place> places(const DcpFolder& folder);
  static std::vector<WeightEntry> entries(const std::vector<Place>& places, IsStacked is_stacked);
  DcpWeights(std::shared_ptr<const DcpFolder> folder, std::vector<Place> places,
             IsStacked is_stacked);
  void require_whole(const DcpTensor& tensor) const;
  // A chunk in the matrix of its tensor, of whose dimensions the first `skipped` do not count.
  TensorPart part(const DcpTensor& tensor, std::size_t chunk, std::size_t skipped) const;

  std::shared_ptr<const DcpFolder> folder_;
  std::vector<Place> places_;                      // by entry
  std::map<const DcpTensor*, std::size_t> first_;  // entry of a tensor
};

}  // namespace trireme
