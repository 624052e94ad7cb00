// A ring of ranks, played one after the other, against attention over whole sequences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/workspace.h"
#include "kernel_test.h"

namespace trireme::cpu {
namespace {

struct RingCase {
  const char* name;
  std::int64_t ranks, chunk, head_dim;
  bool documents, slopes, dropout;
  bool capped = false;
};
void PrintTo(const RingCase& one, std::ostream* out) {
  *out << one.name;
}

constexpr RingCase cases[] = {
    {"odd chunks", 2, 5, 8, false, false, false},
    {"odd chunks and caps", 2, 5, 8, false, false, false, true},
    {"documents", 3, 24, 16, true, false, false},
    {"dropout and slopes", 2, 40, 32, true, true, true},
    {"several blocks of keys", 2, 520, 16, false, false, false},
};

constexpr std::int64_t samples = 2, key_heads = 2, heads_per_key = 2;

SequenceCut cut_of(const RingCase& one, std::int64_t rank) {
  return {one.chunk, {rank * one.chunk, (2 * one.ranks - 1 - rank) * one.chunk}};
}

template <class T>
class WholeSequences {
 public:
  explicit WholeSequences(const RingCase& one) : one_(one) {
    shape_ = {samples, 2 * one.ranks * one.chunk, key_heads, heads_per_key, one.head_dim, true,
              0.3};
    for (std::int64_t i = 0; i < samples * shape_.seq; ++i) {
      const std::int64_t length = 17, at = i % shape_.seq;
      first_visible_.push_back(static_cast<std::int32_t>(at / length * length));
    }
    if (one.documents) shape_.first_visible = first_visible_.data();
    if (one.capped) shape_.soft_cap = 0.6;
    if (one.slopes) shape_.alibi_heads = shape_.heads();
    if (one.dropout) {
      static constexpr StepBlock block{.seed = 5, .step = 3};
      static constexpr std::int64_t ids[samples] = {4, 9};
      shape_.dropout.probability = 0.2F;
      shape_.dropout.block = &block;
      shape_.dropout.sample_ids = ids;
    }
    fill(qkv, shape_.qkv_cols(), 1);
    fill(dctx, shape_.ctx_cols(), 2);
  }

  std::vector<T> qkv, dctx;

  const AttentionShape& shape() const { return shape_; }
  AttentionShape shape_of_rank(std::int64_t rank) const {
    AttentionShape shape = shape_;
    shape.cut = cut_of(one_, rank);
    return shape;
  }
  // The rank's rows, or of each group of `columns` the last `kept`.
  std::vector<T> rows(const std::vector<T>& whole, std::int64_t rank, std::int64_t columns,
                      std::int64_t kept) const {
    std::vector<T> part;
    for_rows(rank, [&](std::int64_t row) {
      const std::int64_t all = static_cast<std::int64_t>(whole.size()) / samples / shape_.seq;
      for (std::int64_t c = 0; c < all; ++c)
        if (c % columns >= columns - kept) part.push_back(whole[row * all + c]);
    });
    return part;
  }
  template <class Body>
  void for_rows(std::int64_t rank, const Body& body) const {
    const SequenceCut cut = cut_of(one_, rank);
    for (std::int64_t b = 0; b < samples; ++b)
      for (std::int64_t i = 0; i < 2 * cut.chunk; ++i) body(b * shape_.seq + cut.position(i));
  }

 private:
  void fill(std::vector<T>& to, std::int64_t columns, std::uint64_t stream) {
    for (const double value : random_values<T>(samples * shape_.seq * columns, stream))
      to.push_back(from_double<T>(value));
  }

  const RingCase& one_;
  AttentionShape shape_{};
  std::vector<std::int32_t> first_visible_;
};

// The largest difference against the largest number.
template <class T>
double difference(const std::vector<T>& found, const std::vector<T>& wanted) {
  double most = 0, size = 0;
  if (found.size() != wanted.size()) return INFINITY;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double apart = std::abs(to_double(found[i]) - to_double(wanted[i]));
    most = std::isnan(apart) ? INFINITY : std::max(most, apart);
    size = std::max(size, std::abs(to_double(wanted[i])));
  }
  return most / size;
}

template <class T>
void compare(const RingCase& one, Isa set) {
  using A = Acc<T>;
  const Kernels<T>& k = kernels<T>(set);
  const WholeSequences<T> whole(one);
  const AttentionShape& s = whole.shape();
  const std::int64_t all = samples * s.seq, rows = samples * 2 * one.chunk;
  const std::int64_t group = (heads_per_key + 2) * one.head_dim, kept = 2 * one.head_dim;
  std::vector<T> ctx(all * s.ctx_cols()), dqkv(all * s.qkv_cols());
  std::vector<A> lse(samples * s.heads() * s.seq);
  std::vector<char> workspace(attention_workspace({.isa = set}, dtype_of<T>, s) + 64);
  k.attention(queue(), s, ctx.data(), lse.data(), whole.qkv.data(), workspace.data());
  k.attention_grad(queue(), s,
                   {.dqkv = dqkv.data(),
                    .dctx = whole.dctx.data(),
                    .qkv = whole.qkv.data(),
                    .ctx = ctx.data(),
                    .lse = lse.data(),
                    .workspace = workspace.data()});

  std::vector<std::vector<T>> qkvs, keys, dctxs, results, grads;
  std::vector<std::vector<A>> stats, deltas, own_grads, key_grads;
  for (std::int64_t r = 0; r < one.ranks; ++r) {
    qkvs.push_back(whole.rows(whole.qkv, r, group, group));
    keys.push_back(whole.rows(whole.qkv, r, group, kept));
    dctxs.push_back(whole.rows(whole.dctx, r, 1, 1));
    own_grads.emplace_back(rows * key_heads * kept);
    key_grads.emplace_back(rows * key_heads * kept);
  }
  for (std::int64_t r = 0; r < one.ranks; ++r) {
    const AttentionShape part = whole.shape_of_rank(r);
    std::vector<T>& result = results.emplace_back(rows * s.ctx_cols());
    std::vector<A> sums(rows * s.ctx_cols()), delta(rows * s.heads());
    std::vector<A>& own = stats.emplace_back(rows * s.heads());
    for (std::int64_t turn = 0; turn < one.ranks; ++turn) {
      const std::int64_t from = (r + one.ranks - turn) % one.ranks;
      k.ring_attention(queue(), part, cut_of(one, from), turn == 0,
                       turn + 1 == one.ranks ? result.data() : nullptr, sums.data(), own.data(),
                       qkvs[r].data(), keys[from].data());
    }
    k.attention_delta(queue(), part, delta.data(), result.data(), dctxs[r].data());
    deltas.push_back(delta);
  }
  for (std::int64_t r = 0; r < one.ranks; ++r) {
    const AttentionShape part = whole.shape_of_rank(r);
    std::vector<T>& grad = grads.emplace_back(rows * s.qkv_cols());
    std::vector<char> room(context_attention_workspace({.isa = set}, dtype_of<T>, part) + 64);
    for (std::int64_t turn = 0; turn < one.ranks; ++turn) {
      const std::int64_t from = (r + one.ranks - turn) % one.ranks;
      k.ring_attention_grad(queue(), part, cut_of(one, from), turn == 0,
                            turn + 1 == one.ranks ? grad.data() : nullptr,
                            turn == 0 ? own_grads[r].data() : key_grads[from].data(),
                            qkvs[r].data(), keys[from].data(), dctxs[r].data(), stats[r].data(),
                            deltas[r].data(), room.data());
    }
  }
  const double tolerance = 100 * rounding<Acc<T>> + 8 * rounding<T>;
  for (std::int64_t r = 0; r < one.ranks; ++r) {
    SCOPED_TRACE(r);
    k.ring_key_grads(queue(), whole.shape_of_rank(r), grads[r].data(), own_grads[r].data(),
                     key_grads[r].data());
    EXPECT_LT(difference(results[r], whole.rows(ctx, r, 1, 1)), tolerance);
    EXPECT_LT(difference(grads[r], whole.rows(dqkv, r, 1, 1)), tolerance);
  }
}

class RingAttention : public testing::TestWithParam<RingCase> {};

TEST_P(RingAttention, IsThatOfWholeSequences) {
  with_sets([](Isa set) {
    compare<double>(GetParam(), set);
    compare<float>(GetParam(), set);
    compare<bf16>(GetParam(), set);
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, RingAttention, testing::ValuesIn(cases));

}  // namespace
}  // namespace trireme::cpu
