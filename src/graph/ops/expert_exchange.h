// How rows of experts that are sharded over ranks travel: sizes, workspace and turns
// (remote_experts.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/line_parts.h"
#include "graph/ops/definitions.h"
#include "graph/ops/group_bias.h"
#include "graph/ops/support.h"

namespace trireme::ops {

// Consecutive experts of an owner, and their rows within a source.
struct ExpertRound {
  std::int64_t row, rows;
};

struct ExpertSizes {
  std::int64_t ranks, tensor_size, experts, own, blocks;        // experts of all ranks, and of each
  std::int64_t taken, round_rows, width, wide, inner, element;  // wide, inner: of a rank

  // The node's inputs begin, in both directions, with rows, offsets, up, down.
  ExpertSizes(const Graph& g, const Node& node);
  GroupedShape up() const { return {round_rows, width, wide, own, blocks}; }
  GroupedShape down() const { return {round_rows, inner, width, own, blocks}; }
  // The biases of an expert: those of up, then those of down.
  std::int64_t biases() const { return wide + width; }
  GroupBiasShape bias(std::int64_t cols, std::int64_t rows) const {
    return {rows, cols, own, biases(), blocks};
  }
  // Number of elements of an expert's larger weight.
  std::int64_t most_weights() const { return width * std::max(wide, inner); }
  // Number of rows that a rank receives with balanced load.
  std::int64_t even_rows() const { return taken * tensor_size; }
  // First expert of a rank, and its rank among those that share them.
  std::int64_t first_expert(int rank) const { return rank / tensor_size * own; }
  std::int64_t tensor_rank(int rank) const { return rank % tensor_size; }
  // Number of offsets of a source's rows, and of those for one owner.
  std::int64_t offsets() const { return experts * blocks + 1; }
  std::int64_t own_offsets() const { return own * blocks + 1; }
};

// Layout of the workspace; each part is aligned to a cache line.
class ExpertScratch : public LineParts {
 public:
  ExpertScratch(const ExpertSizes& s, bool backward, bool fixed_point, bool biased);

  std::int64_t own_offsets, all_offsets, x, wide, inner, y;
  std::int64_t partial;  // what all but the first part of the experts make of this rank's rows
  std::int64_t wide_grad = 0, inner_grad = 0, weights = 0, biases = 0, product;
};

// The turns of one pass, in the same order on all ranks.
class ExpertExchange {
 public:
  ExpertExchange(const Launch& l, const ExpertScratch& scratch);

  const ExpertSizes& sizes() const { return s_; }
  template <class T = std::byte>
  T* at(std::int64_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(l_.workspace) + offset);
  }
  std::int64_t used_rows() const { return offsets_of(group_.rank())[s_.offsets() - 1]; }

  // `inputs`: rows by expert, and buffers for those of another rank. take(round, pointers to the
  // rows of each input) stores its results in `made`; they are sent to `output`, rows by expert,
  // summed over tensor ranks.
  struct Input {
    const std::byte* rows;
    std::byte* arrived;
  };
  using Take = std::function<void(const ExpertRound& round, const std::byte* const* rows)>;
  void run(std::span<const Input> inputs, const std::byte* made, std::byte* output,
           const Take& take) const;

 private:
  std::int64_t row_bytes() const { return s_.width * s_.element; }
  const std::int32_t* offsets_of(int source) const {
    return offsets_.data() + source * s_.offsets();
  }
  std::vector<ExpertRound> rounds(int source, int owner) const;
  std::byte* results_of(int owner, std::byte* output) const;
  void add_partial(std::byte* output) const;
  void read_offsets();
  void write_own_offsets(int source, const ExpertRound& round) const;
  void move(const std::byte* src, std::int64_t sent, int to, std::byte* dst, std::int64_t received,
            int from) const;

  const Launch& l_;
  const ExpertSizes s_;
  const ExpertScratch& scratch_;
  RankGroup& group_;
  std::vector<std::int32_t> offsets_;
};

}  // namespace trireme::ops
