// Gathering of GPT samples, and keeping of their order on disk.
#include "data/gpt/gpt_dataset.h"

#include <algorithm>
#include <array>

#include "base/divide.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/array_cache.h"

namespace trireme {
namespace {

// Orders of fewer sequences and samples are built in less than a millisecond. A blend of thousands
// of datasets has thousands of larger ones, which a machine's processes share once they are on
// disk.
constexpr std::size_t kCachedFrom = 1 << 16;
constexpr std::size_t kArrays = 4;

std::optional<GptOrder> load_order(const fs::path& path, std::uint64_t key) {
  const std::optional<CachedArrays> cached = load_arrays(path, key, kArrays);
  if (!cached || cached->arrays[0].size() != sizeof(std::int64_t)) return std::nullopt;
  GptOrder order{cached->get<std::int64_t>(0)[0], cached->get<std::int32_t>(1),
                 cached->get<std::int64_t>(2), cached->get<std::uint32_t>(3), cached->file};
  const auto sequences = static_cast<std::int64_t>(order.sequences.size());
  const auto blocks = static_cast<std::int64_t>(order.block_tokens.size());
  if (blocks != ceil_div(sequences, GptOrder::block)) return std::nullopt;
  return order;
}

GptOrder build_or_load(const GptOrderRequest& request, std::span<const std::int32_t> lengths,
                       std::uint64_t key, const fs::path& cache_dir) {
  const fs::path path = cache_dir / fmt::format("gpt-order-{}.bin", hash_to_text(key));
  if (!cache_dir.empty()) {
    if (std::optional<GptOrder> order = load_order(path, key)) return *order;
  }
  GptOrder order = build_gpt_order(request, lengths);
  const std::array<std::span<const std::byte>, kArrays> arrays{
      std::as_bytes(std::span(&order.epochs, 1)), std::as_bytes(order.sequences),
      std::as_bytes(order.block_tokens), std::as_bytes(order.shuffle)};
  const bool small = order.sequences.size() + order.shuffle.size() < kCachedFrom;
  if (cache_dir.empty() || small || !store_arrays(path, key, arrays)) return order;
  // Mapped, the arrays are shared by all processes of this machine.
  return load_order(path, key).value_or(order);
}

}  // namespace

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> data, Range range,
                       std::int64_t samples, const GptOptions& options)
    : data_(std::move(data)), options_(options) {
  const std::vector<std::int32_t> lengths = data_->lengths(range.begin, range.end);
  const GptOrderRequest request{range, options.seq_length, samples, options.seed};
  order_key_ = gpt_order_key(request, lengths);
  order_ = build_or_load(request, lengths, order_key_, options.cache_dir);
}

std::vector<SamplePart> GptDataset::parts(std::int64_t index) const {
  TRIREME_CHECK(0 <= index && index < size());
  const std::uint32_t sample = order_.shuffle[index];
  TRIREME_CHECK(sample < order_.samples());
  auto [position, offset] =
      start_of(order_, options_.seq_length, sample,
               [&](std::int32_t sequence) { return data_->length(sequence); });
  std::vector<SamplePart> parts;
  for (std::int64_t left = options_.seq_length + 1; left > 0; ++position, offset = 0) {
    TRIREME_CHECK(position < static_cast<std::int64_t>(order_.sequences.size()));
    const std::int64_t sequence = order_.sequences[position];
    const std::int64_t count = std::min(left, data_->length(sequence) - offset);
    if (count > 0) parts.push_back({&data_->prefix(), sequence, offset, offset + count - 1});
    left -= count;
  }
  return parts;
}

void GptDataset::fill(std::int64_t index, const BatchRow& row) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(options_.seq_length) + 1);
  std::int32_t* to = tokens.data();
  for (const SamplePart& part : parts(index)) {
    const std::int64_t count = part.last - part.first + 1;
    data_->read(part.sequence, part.first, count, to);
    data_->check_ids(part.sequence, part.first, count, to, options_.vocab_size);
    to += count;
  }
  std::int64_t whole = options_.seq_length + 1;
  if (options_.fill_in_middle) {
    whole = options_.fill_in_middle->apply(options_.seed, index, tokens);
  }
  fill_sample(options_.masks, tokens, row);
  // Padding has no loss.
  for (std::int64_t t = whole - 1; t < options_.seq_length; ++t) row.loss_weights[t] = 0;
}

}  // namespace trireme
