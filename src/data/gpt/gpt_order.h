// The order in which a GPT run sees its tokens, as Megatron's GPTDataset defines it.
//
// The sequences of a split are repeated for as many epochs as the samples need, shuffled and laid
// end to end. Sample k takes seq_length + 1 tokens from token k * seq_length on, so that it ends
// with the first token of the next. A second shuffle gives the order in which samples are seen.
// If only a small part of the last epoch is needed, that epoch is shuffled separately, so that the
// other epochs are completed before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "data/split.h"

namespace trireme {

struct GptOrderRequest {
  Range sequences;  // of the corpus; indices fit into 31 bits
  std::int64_t seq_length = 0;
  std::int64_t samples = -1;  // wanted at least; -1: what one epoch gives
  std::uint32_t seed = 0;
};

struct GptOrder {
  static constexpr std::int64_t block = 16;

  std::int64_t epochs = 0;
  // Sequence at each position of the shuffled epochs.
  std::span<const std::int32_t> sequences;
  // Number of tokens before each block of `block` positions: where samples begin is found from
  // these, which take a twentieth of the room that the beginnings themselves would.
  std::span<const std::int64_t> block_tokens;
  // The i-th sample seen is sample shuffle[i].
  std::span<const std::uint32_t> shuffle;
  // Owns what the spans point into.
  std::shared_ptr<const void> storage;

  std::int64_t samples() const { return static_cast<std::int64_t>(shuffle.size()); }
};

// First token of a sample: position in GptOrder::sequences and offset in that sequence.
struct SampleStart {
  std::int64_t position = 0;
  std::int64_t offset = 0;

  bool operator==(const SampleStart&) const = default;
};

// Returns the start of sample k, in [0, samples()]. length_of(sequence) gives a sequence's tokens.
template <class LengthOf>
SampleStart start_of(const GptOrder& order, std::int64_t seq_length, std::int64_t k,
                     const LengthOf& length_of) {
  if (k == 0) return {};  // even if sequences there have no tokens
  const std::int64_t token = k * seq_length;
  const auto next = std::upper_bound(order.block_tokens.begin(), order.block_tokens.end(), token);
  const std::int64_t number = next - order.block_tokens.begin() - 1;
  SampleStart start{number * GptOrder::block, token - order.block_tokens[number]};
  for (;; ++start.position) {
    TRIREME_CHECK(start.position < static_cast<std::int64_t>(order.sequences.size()));
    const std::int64_t length = length_of(order.sequences[start.position]);
    if (start.offset < length) return start;
    start.offset -= length;
  }
}

// `lengths` are those of the request's sequences. Throws bad_input where they hold no token.
GptOrder build_gpt_order(const GptOrderRequest& request, std::span<const std::int32_t> lengths);

// Key under which an order is kept: a hash of everything that determines it. Two runs with the same
// key see the same data in the same order.
std::uint64_t gpt_order_key(const GptOrderRequest& request, std::span<const std::int32_t> lengths);

}  // namespace trireme
