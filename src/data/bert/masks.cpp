// Megatron's masks for left-to-right models, without the T x T mask.
#include "data/bert/masks.h"

#include <algorithm>
#include <numeric>

namespace trireme {

void fill_masks(const MaskOptions& options, std::int64_t seq_length, const BatchRow& row) {
  std::fill_n(row.loss_weights, seq_length, 1.0f);
  std::iota(row.positions, row.positions + seq_length, 0);
  std::fill_n(row.first_visible, seq_length, 0);
  if (!options.reset_position_ids && !options.reset_attention_mask && !options.eod_mask_loss)
    return;
  std::int32_t start = 0;  // of the current document
  for (std::int32_t t = 0; t < seq_length; ++t) {
    if (options.reset_position_ids) row.positions[t] = t - start;
    if (options.reset_attention_mask) row.first_visible[t] = start;
    if (row.tokens[t] != options.eod_id) continue;
    if (options.eod_mask_loss) row.loss_weights[t] = 0;
    start = t + 1;
  }
}

void fill_sample(const MaskOptions& options, std::span<const std::int32_t> tokens,
                 const BatchRow& row) {
  const std::size_t seq_length = tokens.size() - 1;
  std::copy_n(tokens.begin(), seq_length, row.tokens);
  std::copy_n(tokens.begin() + 1, seq_length, row.targets);
  fill_masks(options, static_cast<std::int64_t>(seq_length), row);
}

}  // namespace trireme
