// Building of the BERT sample mapping.
#include "data/bert/bert_order.h"

#include <cmath>
#include <random>

#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"

namespace trireme {
namespace {

constexpr std::int64_t kLongSentence = 512;

// Draws the target length of the next sample: now and then a short one.
class TargetLength {
 public:
  explicit TargetLength(const BertOrderRequest& request)
      : engine_(request.seed), max_(static_cast<std::uint32_t>(request.max_tokens)) {
    if (request.short_seq_prob > 0) {
      ratio_ = static_cast<std::uint32_t>(std::lround(1.0 / request.short_seq_prob));
    }
  }
  std::int32_t next() {
    if (ratio_ == 0) return static_cast<std::int32_t>(max_);
    const auto word = static_cast<std::uint32_t>(engine_());
    return static_cast<std::int32_t>(word % ratio_ == 0 ? 2 + word % (max_ - 1) : max_);
  }

 private:
  std::mt19937 engine_;
  std::uint32_t max_, ratio_ = 0;
};

bool is_usable(const IndexedDataset& data, std::int64_t first, std::int64_t last,
               std::int64_t min_sentences) {
  if (last - first < min_sentences) return false;
  if (last - first == 1) return true;  // upstream looks for long sentences among several only
  for (std::int64_t s = first; s < last; ++s) {
    if (data.length(s) > kLongSentence) return false;
  }
  return true;
}

void add_document(const IndexedDataset& data, std::int64_t begin, std::int64_t end,
                  std::int32_t min_sentences, TargetLength& lengths,
                  std::vector<BertSample>& samples) {
  std::int64_t first = begin;
  std::int64_t tokens = 0;
  std::int32_t target = lengths.next();
  for (std::int64_t s = begin; s < end; ++s) {
    tokens += data.length(s);
    const std::int64_t left = end - s - 1, taken = s + 1 - first;
    const bool full = tokens >= target && left > 1 && taken >= min_sentences;
    if (!full && left > 0) continue;
    samples.push_back({first, static_cast<std::int32_t>(taken), target});
    first = s + 1;
    tokens = 0;
    target = lengths.next();
  }
}

}  // namespace

std::vector<BertSample> build_bert_order(const BertOrderRequest& request,
                                         const IndexedDataset& data) {
  TRIREME_CHECK(request.max_tokens > 1 && request.min_sentences >= 1);
  std::vector<BertSample> samples;
  TargetLength lengths(request);
  do {
    const std::size_t before = samples.size();
    for (std::int64_t d = request.documents.begin; d < request.documents.end; ++d) {
      const std::int64_t begin = data.document_start(d), end = data.document_start(d + 1);
      if (!is_usable(data, begin, end, request.min_sentences)) continue;
      add_document(data, begin, end, request.min_sentences, lengths, samples);
    }
    if (samples.size() == before) {
      fail_input(
          "none of its {} has at least {} of at most {} tokens each; prepare BERT data with "
          "`trireme preprocess --split-sentences`",
          counted(request.documents.size(), "document"), counted(request.min_sentences, "sentence"),
          kLongSentence);
    }
  } while (static_cast<std::int64_t>(samples.size()) < request.samples);
  std::mt19937_64 engine(std::uint64_t{request.seed} + 1);
  for (std::size_t i = samples.size(); i-- > 1;) std::swap(samples[i], samples[engine() % (i + 1)]);
  return samples;
}

std::uint64_t bert_order_key(const BertOrderRequest& request, const IndexedDataset& data) {
  constexpr std::int64_t version = 1;
  Hasher hasher;
  const std::int64_t numbers[] = {version,         request.documents.begin, request.documents.end,
                                  request.samples, request.max_tokens,      request.min_sentences,
                                  request.seed};
  hasher.update(numbers, sizeof(numbers));
  hasher.update(&request.short_seq_prob, sizeof(double));
  for (std::int64_t d = request.documents.begin; d < request.documents.end; ++d) {
    const std::int64_t begin = data.document_start(d), end = data.document_start(d + 1);
    const std::vector<std::int32_t> lengths = data.lengths(begin, end);
    hasher.update(&begin, sizeof(begin));
    hasher.update(lengths.data(), lengths.size() * sizeof(lengths[0]));
  }
  return hasher.digest();
}

}  // namespace trireme
