// Tokens of a stream to samples.
#include "data/stream/source_dataset.h"

#include <limits>

#include "base/error.h"
#include "base/hash.h"

namespace trireme {

SourceDataset::SourceDataset(std::unique_ptr<TokenStream> stream, std::int64_t seq_length,
                             const MaskOptions& masks)
    : stream_(std::move(stream)), seq_length_(seq_length), masks_(masks) {}

std::int64_t SourceDataset::size() const {
  return std::numeric_limits<std::int64_t>::max() / (seq_length_ + 1);
}

void SourceDataset::fill(std::int64_t index, const BatchRow& row) const {
  TRIREME_CHECK(0 <= index && index < size());
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(seq_length_) + 1);
  stream_->read(index * seq_length_, seq_length_ + 1, tokens.data());
  fill_sample(masks_, tokens, row);
}

std::vector<SamplePart> SourceDataset::parts(std::int64_t index) const {
  const Corpus& corpus = stream_->corpus();
  std::vector<SamplePart> parts;
  for (const TokenStream::Part& part : stream_->parts(index * seq_length_, seq_length_ + 1)) {
    parts.push_back(
        {&corpus.file_of(part.unit), part.row, part.first, part.last, corpus.part_of(part.unit)});
  }
  return parts;
}

std::uint64_t SourceDataset::order_key() const {
  const std::uint64_t numbers[] = {stream_->key(), static_cast<std::uint64_t>(seq_length_)};
  return hash64(numbers, sizeof(numbers));
}

}  // namespace trireme
