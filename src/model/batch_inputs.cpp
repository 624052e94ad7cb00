// Copies the arrays of a batch to the inputs of a stage.
#include "model/batch_inputs.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

// The inputs in one slot of a stage; missing inputs are skipped.
class Inputs {
 public:
  Inputs(const Stage& stage, int slot, const Batch& batch, const ContextParallel& context,
         std::span<const double> further)
      : further_(further),
        stage_(stage),
        slot_(slot),
        sequences_(batch.micro_batch_size),
        seq_(batch.seq_length),
        cut_(context.cut(batch.seq_length)) {}

  template <class T>
  void copy(BatchInput which, const std::vector<T>& from) const {
    stage_.write_batch<T>(slot_, which, [&](T* to) {
      const auto bytes = static_cast<std::int64_t>(from.size() * sizeof(T));
      TRIREME_CHECK(stage_.batch_bytes(which) == bytes);
      std::memcpy(to, from.data(), static_cast<std::size_t>(bytes));
    });
  }
  // Elements of this rank, from an array with one element per position.
  template <class T>
  void copy_positions(BatchInput which, const std::vector<T>& from) const {
    if (cut_.chunk == 0) return copy(which, from);
    stage_.write_batch<T>(slot_, which, [&](T* to) {
      TRIREME_CHECK(stage_.batch_bytes(which) == rows() * std::int64_t{sizeof(T)});
      copy_own(from, to);
    });
  }
  // Elements of this rank, then those of the k-th positions after them, each times factor(k).
  template <class T, class Factor>
  void copy_predicted(BatchInput which, const std::vector<T>& from, const Factor& factor) const {
    const std::int64_t all = stage_.batch_bytes(which) / std::int64_t{sizeof(T)};
    if (all <= rows()) return copy_positions(which, from);
    stage_.write_batch<T>(slot_, which, [&](T* to) {
      to = copy_own(from, to);
      std::vector<T> later(from.size());
      for (std::int64_t k = 1; k < all / rows(); ++k) {
        for (std::int64_t r = 0; r < std::ssize(from); ++r) {
          const bool ends = r % seq_ + k >= seq_;
          later[r] = ends ? T{} : static_cast<T>(static_cast<double>(from[r + k]) * factor(k));
        }
        to = copy_own(later, to);
      }
    });
  }
  // to[i] = value(i), for all elements.
  template <class T, class Value>
  void write(BatchInput which, const Value& value) const {
    const std::int64_t count = stage_.batch_bytes(which) / std::int64_t{sizeof(T)};
    stage_.write_batch<T>(slot_, which, [&](T* to) {
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(value(i));
    });
  }

  // Copies the first visible position of each row: of its document, and within the window.
  void copy_first_visible(const Batch& batch) const {
    copy(BatchInput::first_visible, batch.first_visible);
    const std::int64_t window = stage_.definition().attention_window;
    const bool chunks = stage_.definition().window_chunks;
    write<std::int32_t>(BatchInput::first_in_window, [&](std::int64_t row) {
      const std::int64_t position = row % batch.seq_length;
      const std::int64_t earliest = chunks ? position / window * window : position + 1 - window;
      return std::max<std::int64_t>(batch.first_visible[row], earliest);
    });
  }

  // Copies targets and weights of all rows, or only of predicted rows.
  void copy_predictions(const Batch& batch) const {
    if (!stage_.batch(slot_, BatchInput::predicted_rows)) {
      copy_predicted(BatchInput::targets, batch.targets, [](std::int64_t) { return 1.0; });
      copy_predicted(BatchInput::loss_weights, batch.loss_weights,
                     [&](std::int64_t k) { return further_.empty() ? 1.0 : further_[k - 1]; });
      return;
    }
    std::vector<std::int64_t> rows;
    for (std::size_t r = 0; r < batch.targets.size(); ++r)
      if (batch.loss_weights[r] != 0) rows.push_back(static_cast<std::int64_t>(r));
    const auto count = static_cast<std::int64_t>(rows.size());
    TRIREME_CHECK(count <= stage_.batch_bytes(BatchInput::targets) / 4);
    const auto write_rows = [&]<class T>(BatchInput which, T zero, auto&& value) {
      write<T>(which, [&](std::int64_t i) { return i < count ? value(rows[i]) : zero; });
    };
    write_rows(BatchInput::predicted_rows, std::int32_t{0},
               [](std::int64_t r) { return static_cast<std::int32_t>(r); });
    write_rows(BatchInput::targets, std::int32_t{0},
               [&](std::int64_t r) { return batch.targets[r]; });
    write_rows(BatchInput::loss_weights, 0.f,
               [&](std::int64_t r) { return batch.loss_weights[r]; });
  }

 private:
  // Positions of this rank.
  std::int64_t rows() const { return sequences_ * (cut_.chunk > 0 ? 2 * cut_.chunk : seq_); }
  template <class T>
  T* copy_own(const std::vector<T>& from, T* to) const {
    if (cut_.chunk == 0) return std::copy(from.begin(), from.end(), to);
    for (std::int64_t b = 0; b < sequences_; ++b)
      for (const std::int64_t first : cut_.first)
        to = std::copy_n(from.begin() + b * seq_ + first, cut_.chunk, to);
    return to;
  }

  std::span<const double> further_;
  const Stage& stage_;
  int slot_;
  std::int64_t sequences_, seq_;
  SequenceCut cut_;
};

}  // namespace

void load_batch(const Stage& stage, int slot, const Batch& batch, const ContextParallel& context,
                std::span<const double> further) {
  const Inputs inputs(stage, slot, batch, context, further);
  inputs.copy_positions(BatchInput::tokens, batch.tokens);
  inputs.copy_positions(BatchInput::positions, batch.positions);
  inputs.copy_first_visible(batch);
  inputs.copy_positions(BatchInput::segments, batch.segments);
  inputs.copy(BatchInput::sample_ids, batch.sample_ids);
  inputs.copy(BatchInput::lengths, batch.lengths);
  inputs.copy(BatchInput::order_labels, batch.order_labels);
  inputs.copy(BatchInput::new_tokens, batch.new_tokens);
  if (stage.batch(slot, BatchInput::targets)) inputs.copy_predictions(batch);
  inputs.write<std::int32_t>(BatchInput::first_rows,
                             [&](std::int64_t b) { return b * batch.seq_length; });
}

bool reads_data(const StageDefinition& stage, bool positions_of_documents) {
  const auto counts_up = [&](const Value& value) {
    const auto input = static_cast<BatchInput>(value.index);
    if (input == BatchInput::positions) return !positions_of_documents;
    return input == BatchInput::sample_ids || input == BatchInput::first_rows;
  };
  for (const SegmentTemplate& segment : stage.templates) {
    const Graph& graph = *segment.eval;
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      if (graph.value(id).role == Role::batch && !counts_up(graph.value(id))) return true;
    }
  }
  return false;
}

}  // namespace trireme
