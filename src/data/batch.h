// A micro-batch, as produced by the data loader and consumed by the model.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace trireme {

// Destination of one sample: row `b` of each array of a Batch.
struct BatchRow {
  std::int32_t* tokens;         // [seq]
  std::int32_t* targets;        // [seq]
  float* loss_weights;          // [seq]
  std::int32_t* positions;      // [seq]
  std::int32_t* first_visible;  // [seq]
  std::int32_t* segments;       // [seq]
  std::int32_t* length;
  std::int32_t* order_label;
};

// Row-major [micro_batch_size, seq_length] unless stated otherwise; always full. Initially without
// padding or document boundaries, with weight 1 at all positions.
struct Batch {
  std::int64_t micro_batch_size = 0, seq_length = 0;
  std::vector<std::int32_t> tokens;         // inputs
  std::vector<std::int32_t> targets;        // token to predict at each position
  std::vector<float> loss_weights;          // 0 or 1
  std::vector<std::int32_t> positions;      // index of the position embedding
  std::vector<std::int32_t> first_visible;  // first position that a position may attend to
  std::vector<std::int32_t> segments;       // 0 or 1, for BERT; else 0
  // [micro_batch_size]:
  std::vector<std::int64_t> sample_ids;    // counted from the start of the run
  std::vector<std::int32_t> lengths;       // positions that are not padding
  std::vector<std::int32_t> order_labels;  // 1: BERT's segments are swapped
  std::vector<std::int32_t> new_tokens;    // generation: positions that are not padding

  Batch() = default;
  Batch(std::int64_t rows, std::int64_t seq)
      : micro_batch_size(rows),
        seq_length(seq),
        tokens(static_cast<std::size_t>(rows * seq)),
        targets(tokens.size()),
        loss_weights(tokens.size(), 1.f),
        positions(tokens.size()),
        first_visible(tokens.size()),
        segments(tokens.size()),
        sample_ids(static_cast<std::size_t>(rows)),
        lengths(sample_ids.size(), static_cast<std::int32_t>(seq)),
        order_labels(sample_ids.size()),
        new_tokens(sample_ids.size(), static_cast<std::int32_t>(seq)) {
    for (std::int64_t b = 0; b < rows; ++b)
      std::iota(positions.begin() + b * seq, positions.begin() + (b + 1) * seq, 0);
  }

  // Size in bytes of a batch of this shape.
  static std::int64_t bytes(std::int64_t rows, std::int64_t seq) {
    const Batch one(1, 1);
    const auto each = [](const auto&... arrays) {
      return static_cast<std::int64_t>((sizeof(arrays[0]) + ...));
    };
    return rows * seq *
               each(one.tokens, one.targets, one.loss_weights, one.positions, one.first_visible,
                    one.segments) +
           rows * each(one.sample_ids, one.lengths, one.order_labels, one.new_tokens);
  }

  BatchRow row(std::int64_t b) {
    const std::int64_t at = b * seq_length;
    return {tokens.data() + at,    targets.data() + at,       loss_weights.data() + at,
            positions.data() + at, first_visible.data() + at, segments.data() + at,
            lengths.data() + b,    order_labels.data() + b};
  }
};

}  // namespace trireme
