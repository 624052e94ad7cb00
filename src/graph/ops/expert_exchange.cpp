// The exchange of rows of experts that are sharded over ranks: see remote_experts.cpp.
#include "graph/ops/expert_exchange.h"

#include <algorithm>

#include "graph/ops/ops.h"

namespace trireme::ops {
namespace {

// offsets: of all experts' blocks, at the source. Empty rounds are omitted.
std::vector<ExpertRound> rounds_of(const std::int32_t* offsets, std::int64_t blocks,
                                   std::int64_t first, std::int64_t end, std::int64_t most) {
  std::vector<ExpertRound> rounds;
  for (std::int64_t e = first; e < end; ++e) {
    const std::int64_t begin = offsets[e * blocks], count = offsets[(e + 1) * blocks] - begin;
    TRIREME_CHECK(count <= most);
    if (count == 0) continue;
    if (rounds.empty() || rounds.back().rows + count > most) rounds.push_back({begin, 0});
    rounds.back().rows += count;
  }
  return rounds;
}

}  // namespace

ExpertSizes::ExpertSizes(const Graph& g, const Node& node) {
  const auto& a = node.as<RemoteExpertsAttributes>();
  const Shape &rows = g.value(node.inputs[0]).shape, &up = g.value(node.inputs[2]).shape,
              &down = g.value(node.inputs[3]).shape;
  ranks = a.group.size;
  blocks = a.blocks;
  experts = (g.value(node.inputs[1]).shape.count() - 1) / blocks;
  tensor_size = a.tensor_size;
  own = experts / (ranks / tensor_size);
  taken = rows[0];
  round_rows = a.round_rows;
  width = rows[1];
  wide = up[0] / own;
  inner = down[1];
  element = size_of(g.compute());
}

ExpertScratch::ExpertScratch(const ExpertSizes& s, bool backward, bool fixed_point, bool biased) {
  const auto rows = [&](std::int64_t columns) { return add(s.round_rows * columns * s.element); };
  own_offsets = add(s.own_offsets() * size_of(DType::i32));
  all_offsets = add(s.ranks * s.offsets() * size_of(DType::i32));
  x = rows(s.width);
  wide = rows(s.wide);
  inner = rows(s.inner);
  y = rows(s.width);  // backward: the incoming gradient, then the outgoing one
  if (backward) {
    wide_grad = rows(s.wide);
    inner_grad = rows(s.inner);
  }
  if (fixed_point) weights = add(s.most_weights() * size_of(DType::f32));
  if (fixed_point && biased)
    biases = add(group_bias_scratch(std::max(s.wide, s.width), s.own, s.blocks));
  partial = add((s.tensor_size - 1) * s.taken * s.width * s.element);
  product = bytes;
}

ExpertExchange::ExpertExchange(const Launch& l, const ExpertScratch& scratch)
    : l_(l),
      s_(l.graph, l.node),
      scratch_(scratch),
      group_(group_of(l, l.node.as<RemoteExpertsAttributes>().group)) {
  read_offsets();
}

void ExpertExchange::run(std::span<const Input> inputs, const std::byte* made, std::byte* output,
                         const Take& take) const {
  const int ranks = group_.size(), rank = group_.rank();
  for (int turn = 0; turn < ranks; ++turn) {
    const int to = (rank + turn) % ranks, from = (rank + ranks - turn) % ranks;
    const std::vector<ExpertRound> goes = rounds(rank, to), comes = rounds(from, rank);
    for (std::size_t i = 0; i < std::max(goes.size(), comes.size()); ++i) {
      const ExpertRound go = i < goes.size() ? goes[i] : ExpertRound{};
      const ExpertRound come = i < comes.size() ? comes[i] : ExpertRound{};
      const std::byte* rows[2] = {};
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        const std::byte* const own = inputs[k].rows + go.row * row_bytes();
        rows[k] = turn == 0 ? own : inputs[k].arrived;
        if (turn > 0) move(own, go.rows, to, inputs[k].arrived, come.rows, from);
      }
      if (come.rows > 0) {
        write_own_offsets(from, come);
        take(come, rows);
      }
      std::byte* const result = results_of(to, output) + go.row * row_bytes();
      if (turn == 0) {
        l_.queue.copy(result, made, go.rows * row_bytes());
      } else {
        move(made, come.rows, from, result, go.rows, to);
      }
    }
  }
  add_partial(output);
  const std::int64_t rest = s_.taken - used_rows();
  if (rest > 0) l_.queue.fill(output + used_rows() * row_bytes(), 0, rest * row_bytes());
}

std::vector<ExpertRound> ExpertExchange::rounds(int source, int owner) const {
  const std::int64_t first = s_.first_expert(owner);
  return rounds_of(offsets_of(source), s_.blocks, first, first + s_.own, s_.round_rows);
}

// Buffer for an owner's results of this rank's rows: the first part is written to the output.
std::byte* ExpertExchange::results_of(int owner, std::byte* output) const {
  const std::int64_t part = s_.tensor_rank(owner);
  return part == 0 ? output : at(scratch_.partial) + (part - 1) * s_.taken * row_bytes();
}

void ExpertExchange::add_partial(std::byte* output) const {
  const std::int64_t count = used_rows() * s_.width, stride = s_.taken * s_.width;
  if (s_.tensor_size == 1 || count == 0) return;
  // Part k of reduce_parts is from tensor rank k, and the first is in the output.
  l_.device.state_kernels().reduce_parts(l_.queue, l_.graph.compute(), false, output, output,
                                         at(scratch_.partial) - stride * s_.element, stride,
                                         static_cast<int>(s_.tensor_size), 0, count);
}

// Offsets of all ranks' rows; when only planning, loads are assumed to be balanced.
void ExpertExchange::read_offsets() {
  const std::int64_t count = s_.offsets();
  group_.all_gather(l_.queue, l_.in[1], at(scratch_.all_offsets), count, DType::i32);
  offsets_.resize(static_cast<std::size_t>(s_.ranks * count));
  l_.device.read(
      at(scratch_.all_offsets), s_.ranks * count * size_of(DType::i32), [&](const std::byte* host) {
        std::copy_n(reinterpret_cast<const std::int32_t*>(host), offsets_.size(), offsets_.begin());
      });
  if (l_.device.computes()) return;
  for (std::size_t i = 0; i < offsets_.size(); ++i) {
    const std::int64_t before = static_cast<std::int64_t>(i) % count;
    offsets_[i] = static_cast<std::int32_t>(before * s_.taken / (count - 1));
  }
}

// Start of each of this rank's experts among the received rows.
void ExpertExchange::write_own_offsets(int source, const ExpertRound& round) const {
  const std::int32_t* const all = offsets_of(source) + s_.first_expert(group_.rank()) * s_.blocks;
  l_.device.write(at(scratch_.own_offsets), s_.own_offsets() * size_of(DType::i32),
                  [&](std::byte* host) {
                    auto* const own = reinterpret_cast<std::int32_t*>(host);
                    for (std::int64_t i = 0; i < s_.own_offsets(); ++i) {
                      own[i] = static_cast<std::int32_t>(
                          std::clamp<std::int64_t>(all[i] - round.row, 0, round.rows));
                    }
                  });
}

void ExpertExchange::move(const std::byte* src, std::int64_t sent, int to, std::byte* dst,
                          std::int64_t received, int from) const {
  group_.send_receive(l_.queue, src, sent * s_.width, to, dst, received * s_.width, from,
                      l_.graph.compute());
}

}  // namespace trireme::ops
