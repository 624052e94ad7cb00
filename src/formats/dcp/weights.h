// Tensors of a torch.distributed.checkpoint folder as parts of whole tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/dcp/folder.h"
#include "formats/joined_tensors.h"

namespace trireme {

class DcpWeights : public WeightFile {
 public:
  // Which tensors are to be read with layers(), and which as one vector though they have several
  // dimensions; null: none.
  struct Views {
    bool (*is_stacked)(const DcpTensor&) = nullptr;
    bool (*is_vector)(const DcpTensor&) = nullptr;

    std::size_t skipped(const DcpTensor& tensor) const {
      return is_stacked && is_stacked(tensor) ? 1 : 0;
    }
    bool flattens(const DcpTensor& tensor) const { return is_vector && is_vector(tensor); }
  };
  explicit DcpWeights(std::shared_ptr<const DcpFolder> folder, Views views);
  explicit DcpWeights(std::shared_ptr<const DcpFolder> folder)
      : DcpWeights(std::move(folder), Views{}) {}

  const DcpFolder& folder() const { return *folder_; }
  // A tensor under another name. Refused (exit code 2): parts that overlap or leave gaps, or that
  // are not rectangles of the tensor viewed as a matrix.
  JoinedTensor whole(const DcpTensor& tensor, const std::string& name) const;
  // Splits a tensor whose first dimension is the layer into one tensor per layer. Refused (exit
  // code 2): as for whole(), and parts that span several layers.
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
  static std::vector<WeightEntry> entries(const std::vector<Place>& places, const Views& views);
  DcpWeights(std::shared_ptr<const DcpFolder> folder, std::vector<Place> places,
             const Views& views);
  void require_whole(const DcpTensor& tensor) const;
  // Shape without the first `skipped` dimensions.
  std::vector<std::int64_t> shape_of(const DcpTensor& tensor, std::size_t skipped) const;
  // A chunk within its tensor's matrix, ignoring the first `skipped` dimensions.
  TensorPart part(const DcpTensor& tensor, std::size_t chunk, std::size_t skipped) const;

  std::shared_ptr<const DcpFolder> folder_;
  Views views_;
  std::vector<Place> places_;                      // by entry
  std::map<const DcpTensor*, std::size_t> first_;  // entry of a tensor
};

}  // namespace trireme
