// Samples of seq_length + 1 consecutive tokens of a stream of documents, for left-to-right models.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/bert/masks.h"
#include "data/dataset.h"
#include "data/stream/token_stream.h"

namespace trireme {

class SourceDataset final : public Dataset {
 public:
  SourceDataset(std::unique_ptr<TokenStream> stream, std::int64_t seq_length,
                const MaskOptions& masks);

  // Without an end: epoch follows epoch.
  std::int64_t size() const override;
  std::int64_t seq_length() const override { return seq_length_; }
  // Sample k takes its tokens from token k * seq_length of the stream on. Throws bad_input for
  // documents that cannot be read.
  void fill(std::int64_t index, const BatchRow& row) const override;
  std::vector<SamplePart> parts(std::int64_t index) const override;
  std::uint64_t order_key() const override;

 private:
  std::unique_ptr<TokenStream> stream_;
  std::int64_t seq_length_;
  MaskOptions masks_;
};

}  // namespace trireme
