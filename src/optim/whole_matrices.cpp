// Assigns matrices to owners, transfers their pieces, and assembles them.
#include "optim/whole_matrices.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace trireme {
namespace {

constexpr const char* gather_label = "gather matrices";
constexpr const char* scatter_label = "scatter matrices";

bool is_matrix(const ParameterSpec& spec) {
  return !spec.matrix_rows.empty();
}

std::int64_t period(const ParameterSpec& spec) {
  return std::accumulate(spec.matrix_rows.begin(), spec.matrix_rows.end(), std::int64_t{0});
}

// Number of rows of the tensor that contains the matrices: an expert-parallel rank has its own
// matrices.
std::int64_t all_rows(const ParameterSpec& spec) {
  return spec.of_experts ? spec.shape[0] : spec.saved_shape[0];
}

std::int64_t rows_of_matrix(const ParameterSpec& spec, int matrix) {
  return all_rows(spec) / period(spec) * spec.matrix_rows[matrix];
}

// Number of ranks that hold a part of it.
int parts_of(const ParameterSpec& spec) {
  if (!spec.split) return 1;
  const std::int64_t copied = (spec.copies - 1) * spec.copied_rows * spec.saved_shape[1];
  const std::int64_t all = spec.saved_shape.count() + copied * spec.saved_shape[0] / period(spec);
  return static_cast<int>(all / spec.shape.count());
}

// Full row at which the piece of the rank `away` from this one begins, given this rank's piece.
std::int64_t row_on(const ParameterSpec& spec, const RowPiece& piece, std::int64_t away) {
  if (spec.copies == 1) return piece.row + away * piece.rows;
  // Each rank has a part of one group's queries, and shares the group's last rows with its copies.
  const std::int64_t group = piece.row / period(spec), rank = group * spec.copies + spec.copy;
  const std::int64_t groups_away = (rank + away) / spec.copies - group;
  const bool is_copied = piece.local_row >= spec.shape[0] - spec.copied_rows;
  const std::int64_t copies_away = is_copied ? 0 : (rank + away) % spec.copies - spec.copy;
  return piece.row + groups_away * period(spec) + copies_away * piece.rows;
}

Transfer transfer(bool sends, int peer, std::byte* data, std::int64_t count, DType dtype) {
  return {sends ? Transfer::Direction::send : Transfer::Direction::receive, peer, data, count,
          dtype};
}

}  // namespace

WholeMatrices::WholeMatrices(const Stage& stage, const StateLayout& layout,
                             const Gradients& gradients, std::unique_ptr<MatrixStep> step)
    : stage_(stage),
      layout_(layout),
      gradients_(gradients),
      step_(std::move(step)),
      width_(size_of(gradients.dtype())) {
  for (const Parameter& parameter : stage.definition().parameters) {
    if (!is_matrix(parameter.spec)) continue;
    TRIREME_CHECK(all_rows(parameter.spec) % period(parameter.spec) == 0);
    tensor_ranks_ = std::max(tensor_ranks_, parts_of(parameter.spec));
  }
  distribute();
  plan_memory();
}

const ParameterSpec& WholeMatrices::spec(const Item& item) const {
  return stage_.definition().parameters[item.parameter].spec;
}

void WholeMatrices::distribute() {
  const auto& parameters = stage_.definition().parameters;
  const auto cost = [&](int p) {
    const ParameterSpec& spec = parameters[p].spec;
    double sum = 0;
    for (int m = 0; m < static_cast<int>(spec.matrix_rows.size()); ++m)
      sum += step_->cost(rows_of_matrix(spec, m), spec.saved_shape[1]);
    return sum;
  };
  const auto deal = [&](bool split, bool experts) {
    std::vector<int> dealt;
    for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
      const ParameterSpec& spec = parameters[p].spec;
      if (is_matrix(spec) && spec.split == split && spec.of_experts == experts) dealt.push_back(p);
    }
    std::stable_sort(dealt.begin(), dealt.end(), [&](int a, int b) { return cost(a) > cost(b); });
    const StateOptions& options = layout_.options();
    const int shards = experts ? options.expert_degree : options.degree;
    const int tensors = split ? tensor_ranks_ : 1;
    for (int i = 0; i < static_cast<int>(dealt.size()); ++i) {
      const int owner = i % (shards * tensors);
      if (owner == 0) rounds_.emplace_back();
      rounds_.back().push_back({dealt[i], owner % shards, split ? owner / shards : -1});
    }
  };
  deal(true, false);
  deal(false, false);
  deal(false, true);
}

void WholeMatrices::plan_memory() {
  std::int64_t matrix_elements = 0, scratch_bytes = 0;
  for (const Round& round : rounds_) {
    for (const Item& item : round) {
      const ParameterSpec& s = spec(item);
      largest_piece_ = std::max(largest_piece_, align_up(s.shape.count() * width_));
      for (int m = 0; m < static_cast<int>(s.matrix_rows.size()); ++m) {
        const std::int64_t rows = rows_of_matrix(s, m), cols = s.saved_shape[1];
        matrix_elements = std::max(matrix_elements, rows * cols);
        scratch_bytes = std::max(scratch_bytes, step_->scratch_bytes(rows, cols));
      }
    }
  }
  if (std::max(layout_.options().degree, layout_.options().expert_degree) > 1)
    local_bytes_ = tensor_ranks_ * largest_piece_;
  if (tensor_ranks_ > 1) pieces_bytes_ = tensor_ranks_ * largest_piece_;
  if (gradients_.dtype() == DType::bf16) narrow_bytes_ = align_up(matrix_elements * width_);
  matrix_bytes_ = align_up(matrix_elements * size_of(stage_.definition().accumulate()));
  memory_bytes_ = local_bytes_ + pieces_bytes_ + narrow_bytes_ + matrix_bytes_ + scratch_bytes;
}

void WholeMatrices::allocate(std::byte* memory, const Groups& groups) {
  TRIREME_CHECK(rounds_.empty() || groups.tensor->size() == tensor_ranks_);
  groups_ = &groups;
  local_ = memory;
  pieces_ = local_ + local_bytes_;
  narrow_ = pieces_ + pieces_bytes_;
  matrix_ = narrow_ + narrow_bytes_;
  scratch_ = matrix_ + matrix_bytes_;
}

bool WholeMatrices::is_mine(const Item& item) const {
  return item.shard == layout_.rank(bucket(item)) &&
         (item.tensor < 0 || item.tensor == groups_->tensor->rank());
}

std::byte* WholeMatrices::gradient(const OwnedSlice& slice) const {
  return gradients_.part(slice.bucket) + slice.offset * width_;
}

// Unsharded pieces are in place of the gradient.
std::byte* WholeMatrices::local(const Item& item) const {
  if (layout_.degree(bucket(item)) == 1) return gradient(layout_.slice_of(item.parameter, 0));
  return local_ + slot(item) * largest_piece_;
}

std::byte* WholeMatrices::pieces(const Item& item) const {
  return spec(item).split ? pieces_ : local(item);
}

// Transfers between the ranks that share the states, each with a range of the piece, and owners.
void WholeMatrices::move_shards(const Round& round, bool to_owner) {
  const int first = bucket(round.front());  // all of them have the same ranks
  const auto [degree, rank] = std::pair(layout_.degree(first), layout_.rank(first));
  if (degree == 1) return;
  Queue& queue = stage_.device().queue();
  std::vector<Transfer> transfers;
  for (const Item& item : round) {
    const OwnedSlice own = layout_.slice_of(item.parameter, rank);
    if (item.shard != rank) {
      if (own.count() > 0)
        transfers.push_back(
            transfer(to_owner, item.shard, gradient(own), own.count(), gradients_.dtype()));
      continue;
    }
    for (int k = 0; k < degree; ++k) {
      const OwnedSlice theirs = layout_.slice_of(item.parameter, k);
      std::byte* const place = local(item) + theirs.begin * width_;
      if (theirs.count() == 0) continue;
      if (k != rank) {
        transfers.push_back(transfer(!to_owner, k, place, theirs.count(), gradients_.dtype()));
      } else if (to_owner) {
        queue.copy(place, gradient(own), own.count() * width_);
      } else {
        queue.copy(gradient(own), place, own.count() * width_);
      }
    }
  }
  groups_->gather_of(layout_.of_experts(first))
      .exchange(transfers, to_owner ? gather_label : scatter_label)
      .wait();
}

// Transfers between tensor-parallel ranks, each with its piece, and the owner.
void WholeMatrices::move_pieces(const Round& round, bool to_owner) {
  const int rank = groups_->tensor->rank();
  Queue& queue = stage_.device().queue();
  std::vector<Transfer> transfers;
  for (const Item& item : round) {
    if (item.shard != layout_.rank(bucket(item)) || !spec(item).split) continue;
    const std::int64_t count = spec(item).shape.count();
    if (item.tensor != rank) {
      transfers.push_back(transfer(to_owner, item.tensor, local(item), count, gradients_.dtype()));
      continue;
    }
    for (int t = 0; t < tensor_ranks_; ++t) {
      std::byte* const place = pieces_ + t * largest_piece_;
      if (t != rank) {
        transfers.push_back(transfer(!to_owner, t, place, count, gradients_.dtype()));
      } else if (to_owner) {
        queue.copy(place, local(item), count * width_);
      } else {
        queue.copy(local(item), place, count * width_);
      }
    }
  }
  if (!transfers.empty())
    groups_->tensor->exchange(transfers, to_owner ? gather_label : scatter_label).wait();
}

std::vector<WholeMatrices::Rows> WholeMatrices::rows_of(const ParameterSpec& spec, int matrix,
                                                        int tensor_rank) const {
  std::vector<RowPiece> pieces = spec.pieces;
  if (spec.of_experts) pieces.clear();
  if (pieces.empty()) pieces.push_back({0, 0, spec.shape[0]});
  // Pieces of another rank are offset by a multiple of the number of pieces.
  const std::int64_t away = spec.split ? tensor_rank - groups_->tensor->rank() : 0;
  const bool cuts_columns = spec.shape[1] < spec.saved_shape[1];
  const std::int64_t column = cuts_columns ? spec.first_column + away * spec.shape[1] : 0;
  const std::int64_t all = period(spec), width = spec.matrix_rows[matrix];
  const std::int64_t first =
      std::accumulate(spec.matrix_rows.begin(), spec.matrix_rows.begin() + matrix, std::int64_t{0});
  std::vector<Rows> rows;
  for (const RowPiece& piece : pieces) {
    const std::int64_t begin = cuts_columns ? piece.row : row_on(spec, piece, away);
    const std::int64_t end = begin + piece.rows;
    for (std::int64_t turn = begin / all; turn * all < end; ++turn) {
      const std::int64_t from = std::max(begin, turn * all + first);
      const std::int64_t to = std::min(end, turn * all + first + width);
      if (from >= to) continue;
      rows.push_back({turn * width + from - turn * all - first, piece.local_row + from - begin,
                      to - from, column});
    }
  }
  return rows;
}

void WholeMatrices::copy(const Item& item, int matrix, std::byte* whole, bool into_matrix) const {
  const ParameterSpec& s = spec(item);
  const std::int64_t bytes = s.shape[1] * width_, stride = s.saved_shape[1] * width_;
  Device& device = stage_.device();
  for (int t = 0; t < parts_of(s); ++t) {
    std::byte* const piece = pieces(item) + t * largest_piece_;
    for (const Rows& r : rows_of(s, matrix, t)) {
      std::byte* const there = whole + r.matrix_row * stride + r.column * width_;
      std::byte* const here = piece + r.piece_row * bytes;
      if (into_matrix) {
        device.state_kernels().copy_rows(device.queue(), there, stride, here, bytes, bytes, r.rows);
      } else {
        device.state_kernels().copy_rows(device.queue(), here, bytes, there, stride, bytes, r.rows);
      }
    }
  }
}

void WholeMatrices::take(const Item& item) {
  const ParameterSpec& s = spec(item);
  Device& device = stage_.device();
  const bool narrow = narrow_bytes_ > 0;
  std::byte* const put_together = narrow ? narrow_ : matrix_;
  for (int m = 0; m < static_cast<int>(s.matrix_rows.size()); ++m) {
    const std::int64_t rows = rows_of_matrix(s, m), cols = s.saved_shape[1];
    copy(item, m, put_together, true);
    auto* const stored = reinterpret_cast<bf16*>(narrow_);
    auto* const wide = reinterpret_cast<float*>(matrix_);
    if (narrow) device.state_kernels().widen(device.queue(), wide, stored, rows * cols);
    step_->run(matrix_, rows, cols, scratch_);
    if (narrow) device.kernels<bf16>().cast_from_master(device.queue(), stored, wide, rows * cols);
    copy(item, m, put_together, false);
  }
}

void WholeMatrices::run() {
  for (const Round& round : rounds_) {
    move_shards(round, true);
    move_pieces(round, true);
    for (const Item& item : round)
      if (is_mine(item)) take(item);
    move_pieces(round, false);
    move_shards(round, false);
  }
}

}  // namespace trireme
