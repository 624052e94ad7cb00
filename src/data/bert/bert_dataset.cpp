// Reading of BERT samples, and keeping of their order on disk.
#include "data/bert/bert_dataset.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "data/array_cache.h"

namespace trireme {
namespace {

// Orders below this are built faster than they are found on disk.
constexpr std::size_t kCachedFromBytes = 1 << 20;

}  // namespace

BertDataset::BertDataset(std::shared_ptr<const IndexedDataset> data, Range range,
                         std::int64_t samples, const BertOptions& options)
    : data_(std::move(data)), options_(options) {
  if (options.seq_length < 5) {
    fail_input("BERT requires a sequence length of at least 5, found {}", options.seq_length);
  }
  const BertOrderRequest request{.documents = range,
                                 .samples = samples,
                                 .max_tokens = static_cast<std::int32_t>(options.seq_length - 3),
                                 .min_sentences = options.sample.order_head ? 2 : 1,
                                 .short_seq_prob = options.short_seq_prob,
                                 .seed = options.seed};
  order_key_ = bert_order_key(request, *data_);
  const fs::path path =
      options.cache_dir / fmt::format("bert-order-{}.bin", hash_to_text(order_key_));
  if (!options.cache_dir.empty()) {
    if (const auto cached = load_arrays(path, order_key_, 1)) {
      order_ = cached->get<BertSample>(0);
      storage_ = cached->file;
      return;
    }
  }
  auto order = std::make_shared<std::vector<BertSample>>(build_bert_order(request, *data_));
  order_ = *order;
  storage_ = order;
  const std::span<const std::byte> bytes = std::as_bytes(order_);
  if (!options.cache_dir.empty() && bytes.size() >= kCachedFromBytes) {
    store_arrays(path, order_key_, std::span(&bytes, 1));
  }
}

std::vector<SamplePart> BertDataset::parts(std::int64_t index) const {
  TRIREME_CHECK(0 <= index && index < size());
  std::vector<SamplePart> parts;
  const BertSample& sample = order_[index];
  for (std::int64_t s = sample.first; s < sample.first + sample.count; ++s) {
    parts.push_back({&data_->prefix(), s, 0, data_->length(s) - 1});
  }
  return parts;
}

void BertDataset::fill(std::int64_t index, const BatchRow& row) const {
  TRIREME_CHECK(0 <= index && index < size());
  const BertSample& chosen = order_[index];
  std::vector<std::vector<std::int32_t>> sentences;
  for (std::int64_t s = chosen.first; s < chosen.first + chosen.count; ++s) {
    std::vector<std::int32_t>& ids =
        sentences.emplace_back(static_cast<std::size_t>(data_->length(s)));
    data_->read(s, 0, data_->length(s), ids.data());
    data_->check_ids(s, 0, data_->length(s), ids.data(), options_.vocabulary.size());
  }
  NumpyRandom random(static_cast<std::uint32_t>(options_.seed + static_cast<std::uint64_t>(index)));
  const BertSampleResult sample =
      make_bert_sample(sentences, chosen.target, options_.vocabulary, options_.sample, random);
  const std::int64_t seq = options_.seq_length;
  TRIREME_CHECK(static_cast<std::int64_t>(sample.tokens.size()) <= seq);
  std::fill_n(row.tokens, seq, options_.vocabulary.pad);
  std::ranges::copy(sample.tokens, row.tokens);
  std::fill_n(row.segments, seq, 0);
  std::ranges::copy(sample.segments, row.segments);
  std::fill_n(row.targets, seq, 0);
  std::fill_n(row.loss_weights, seq, 0.0f);
  for (std::size_t m = 0; m < sample.positions.size(); ++m) {
    row.targets[sample.positions[m]] = sample.labels[m];
    row.loss_weights[sample.positions[m]] = 1.0f;
  }
  std::iota(row.positions, row.positions + seq, 0);
  std::fill_n(row.first_visible, seq, 0);
  *row.length = static_cast<std::int32_t>(sample.tokens.size());
  *row.order_label = sample.swapped ? 1 : 0;
}

}  // namespace trireme
