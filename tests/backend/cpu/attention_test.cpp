// Attention kernels against the plain reference: every storage type on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "attention_reference.h"
#include "backend/cpu/device.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/workspace.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

std::vector<Isa> available_sets() {
  std::vector<Isa> sets;
  for (const Isa set : {Isa::avx2, Isa::avx512, Isa::amx}) {
    if (supports(set)) sets.push_back(set);
  }
  return sets;
}

// A buffer between two guards that must stay as they are; starts as NaN.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t count) : bytes_(count * sizeof(T) + 2 * guard, 0xff) {}
  T* data() { return reinterpret_cast<T*>(bytes_.data() + guard); }
  bool intact() const {
    const auto whole = [](unsigned char byte) { return byte == 0xff; };
    return std::all_of(bytes_.begin(), bytes_.begin() + guard, whole) &&
           std::all_of(bytes_.end() - guard, bytes_.end(), whole);
  }

 private:
  static constexpr std::size_t guard = 256;
  std::vector<unsigned char> bytes_;
};

// One problem: a shape with everything that it points to, and random inputs.
struct Problem {
  std::string name;
  AttentionShape shape;
  std::vector<std::int32_t> first_visible, lengths;
  std::vector<std::int64_t> sample_ids;

  Problem(std::int64_t batch, std::int64_t seq, std::int64_t groups, std::int64_t queries_per_group,
          std::int64_t head_dim, bool causal)
      : shape{batch,
              seq,
              groups,
              queries_per_group,
              head_dim,
              causal,
              1 / std::sqrt(static_cast<double>(head_dim))} {
    name = "batch " + std::to_string(batch) + " seq " + std::to_string(seq) + " groups " +
           std::to_string(groups) + " x " + std::to_string(queries_per_group) + " head_dim " +
           std::to_string(head_dim) + (causal ? " causal" : "");
  }
  Problem& with_documents(std::int64_t length) {
    first_visible.resize(shape.batch * shape.seq);
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      for (std::int64_t i = 0; i < shape.seq; ++i) {
        first_visible[b * shape.seq + i] =
            static_cast<std::int32_t>(std::max<std::int64_t>(0, (i + b) / length * length - b));
      }
    }
    name += " documents";
    return *this;
  }
  Problem& with_lengths() {
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      lengths.push_back(static_cast<std::int32_t>(shape.seq - b * shape.seq / shape.batch));
    }
    name += " lengths";
    return *this;
  }
  Problem& with_dropout(float probability) {
    for (std::int64_t b = 0; b < shape.batch; ++b) sample_ids.push_back(b * 7'000'000'001 + 5);
    shape.dropout.probability = probability;
    static constexpr StepBlock block{.seed = 0x123456789abcdef, .step = 3};
    shape.dropout.block = &block;
    shape.dropout.site = 11;
    shape.first_head = 2;
    name += " dropout";
    return *this;
  }
  Problem& with_alibi(std::int64_t heads, std::int64_t first_head) {
    shape.alibi_heads = heads;
    shape.first_head = first_head;
    name += " ALiBi";
    return *this;
  }
  Problem& with_cap(double cap) {
    shape.soft_cap = cap;
    name += " cap";
    return *this;
  }
  AttentionShape ready() const {
    AttentionShape s = shape;
    if (!first_visible.empty()) s.first_visible = first_visible.data();
    if (!lengths.empty()) s.lengths = lengths.data();
    s.dropout.sample_ids = sample_ids.data();
    return s;
  }
  std::int64_t qkv_count() const { return shape.batch * shape.seq * shape.qkv_cols(); }
  std::int64_t ctx_count() const { return shape.batch * shape.seq * shape.ctx_cols(); }
  std::int64_t lse_count() const { return shape.batch * shape.heads() * shape.seq; }
};

template <class T>
std::vector<T> random_values(std::int64_t count, std::uint64_t stream) {
  std::vector<T> out(count);
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = T(static_cast<Acc<T>>(normal(42, stream, static_cast<std::uint64_t>(i))));
  }
  return out;
}

template <class T>
std::vector<double> widen(const T* data, std::int64_t count) {
  std::vector<double> out(count);
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<double>(Acc<T>(data[i]));
  return out;
}

template <class T>
struct Outcome {
  std::vector<T> ctx, dqkv;
  std::vector<Acc<T>> lse;
};

// Runs forward and backward; checks the guards.
template <class T>
Outcome<T> run(Isa set, const AttentionShape& s, const T* qkv, const T* dctx) {
  const Kernels<T>& k = kernels<T>(set);
  const std::size_t ctx_count = s.batch * s.seq * s.ctx_cols();
  const std::size_t qkv_count = s.batch * s.seq * s.qkv_cols();
  const std::size_t lse_count = s.batch * s.heads() * s.seq;
  Guarded<T> ctx(ctx_count), dqkv(qkv_count);
  Guarded<Acc<T>> lse(lse_count);
  Guarded<char> workspace(attention_workspace({.isa = set}, dtype_of<T>, s));
  k.attention(queue(), s, ctx.data(), lse.data(), qkv, workspace.data());
  k.attention_grad(queue(), s,
                   {.dqkv = dqkv.data(),
                    .dctx = dctx,
                    .qkv = qkv,
                    .ctx = ctx.data(),
                    .lse = lse.data(),
                    .workspace = workspace.data()});
  EXPECT_TRUE(ctx.intact() && lse.intact() && dqkv.intact() && workspace.intact());
  return {{ctx.data(), ctx.data() + ctx_count},
          {dqkv.data(), dqkv.data() + qkv_count},
          {lse.data(), lse.data() + lse_count}};
}

// |a - b| / |b| in the Euclidean norm; infinities must agree, NaN never does.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i]) {
      if (std::isfinite(b[i])) size += b[i] * b[i];
      continue;
    }
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

template <class T>
constexpr double tolerance = 1e-6;
template <>
constexpr double tolerance<double> = 1e-13;
template <>
constexpr double tolerance<f16> = 1e-3;
template <>
constexpr double tolerance<bf16> = 1e-2;

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
class Attention : public testing::Test {};
using StorageTypes = testing::Types<float, bf16, f16, double>;
TYPED_TEST_SUITE(Attention, StorageTypes);

template <class T>
void expect_like_reference(const Problem& problem) {
  AttentionShape s = problem.ready();
  // The scores of layer 1, whose heads follow those of other ranks.
  const std::int64_t heads = s.first_head + s.heads();
  std::vector<double> highest(2 * heads);
  const StepBlock block{.largest_scores = highest.data(), .score_heads = heads};
  const bool is_plain = s.alibi_heads == 0 && s.soft_cap == 0;
  if (is_plain) s.scores = &block;
  s.layer = 1;
  const auto qkv = random_values<T>(problem.qkv_count(), 1);
  const auto dctx = random_values<T>(problem.ctx_count(), 2);
  const AttentionReference expected(s, widen(qkv.data(), problem.qkv_count()).data(),
                                    widen(dctx.data(), problem.ctx_count()).data());
  for (const Isa set : available_sets()) {
    SCOPED_TRACE(problem.name + " on " + name_of(set));
    std::ranges::fill(highest, 0);
    const Outcome<T> got = run(set, s, qkv.data(), dctx.data());
    const auto near = [](const auto& x, const std::vector<double>& y) {
      return distance(widen(x.data(), static_cast<std::int64_t>(x.size())), y);
    };
    EXPECT_LT(near(got.ctx, expected.ctx), tolerance<T>);
    EXPECT_LT(near(got.lse, expected.lse), tolerance<T>);
    EXPECT_LT(near(got.dqkv, expected.dqkv), tolerance<T>);
    if (is_plain) {
      EXPECT_LT(distance({highest.end() - s.heads(), highest.end()}, expected.highest),
                tolerance<T>);
    }
  }
}

TYPED_TEST(Attention, EqualsTheReferenceAtAnyLength) {
  for (const std::int64_t seq : {1, 7, 63, 65, 130}) {
    for (const bool causal : {true, false}) {
      expect_like_reference<TypeParam>(Problem(2, seq, 2, 1, 32, causal));
    }
  }
}

TYPED_TEST(Attention, EqualsTheReferenceForAnyHeadDim) {
  for (const std::int64_t head_dim : {4, 8, 12, 64, 80, 128, 256}) {
    expect_like_reference<TypeParam>(Problem(1, 70, 1, 2, head_dim, true));
  }
}

TYPED_TEST(Attention, EqualsTheReferenceForGroupedHeads) {
  expect_like_reference<TypeParam>(Problem(2, 65, 2, 3, 32, true));
  expect_like_reference<TypeParam>(Problem(1, 40, 1, 20, 16, false));
}

TYPED_TEST(Attention, EqualsTheReferenceOverSeveralBlocksOfKeys) {
  expect_like_reference<TypeParam>(Problem(1, 700, 1, 2, 64, true));
  expect_like_reference<TypeParam>(Problem(1, 300, 1, 1, 256, false));
}

TYPED_TEST(Attention, EqualsTheReferenceForPackedDocuments) {
  for (const std::int64_t length : {5, 33, 64}) {
    expect_like_reference<TypeParam>(Problem(2, 200, 2, 2, 32, true).with_documents(length));
  }
}

TYPED_TEST(Attention, EqualsTheReferenceForPaddedSamples) {
  expect_like_reference<TypeParam>(Problem(3, 150, 2, 1, 32, false).with_lengths());
  expect_like_reference<TypeParam>(Problem(3, 150, 1, 2, 32, true).with_lengths());
  expect_like_reference<TypeParam>(
      Problem(3, 150, 1, 2, 32, true).with_lengths().with_documents(20));
}

TYPED_TEST(Attention, EqualsTheReferenceWithDropout) {
  expect_like_reference<TypeParam>(Problem(2, 130, 2, 2, 32, true).with_dropout(0.1f));
  expect_like_reference<TypeParam>(Problem(1, 65, 1, 1, 64, false).with_dropout(0.5f));
}

TYPED_TEST(Attention, EqualsTheReferenceWithSlopes) {
  expect_like_reference<TypeParam>(Problem(2, 130, 2, 2, 32, true).with_alibi(4, 0));
  expect_like_reference<TypeParam>(Problem(1, 600, 1, 3, 64, true).with_alibi(12, 6));
  expect_like_reference<TypeParam>(
      Problem(2, 200, 3, 1, 20, true).with_alibi(3, 0).with_documents(33));
}

// Scores far below the cap, and far above it, both ways, with windows that hide keys and dropout.
TYPED_TEST(Attention, EqualsTheReferenceWithCaps) {
  for (const double cap : {0.3, 3.0, 50.0}) {
    expect_like_reference<TypeParam>(Problem(2, 130, 2, 2, 32, true).with_cap(cap));
    expect_like_reference<TypeParam>(
        Problem(2, 200, 3, 1, 20, true).with_cap(cap).with_documents(33).with_dropout(0.1f));
    expect_like_reference<TypeParam>(Problem(3, 150, 1, 2, 32, false).with_cap(cap).with_lengths());
  }
}

TYPED_TEST(Attention, NeverReadsPadding) {
  using T = TypeParam;
  const Problem problem = Problem(2, 100, 1, 2, 32, true).with_lengths();
  const AttentionShape s = problem.ready();
  auto qkv = random_values<T>(problem.qkv_count(), 1);
  const auto dctx = random_values<T>(problem.ctx_count(), 2);
  for (const Isa set : available_sets()) {
    const Outcome<T> clean = run(set, s, qkv.data(), dctx.data());
    auto soiled = qkv;
    for (std::int64_t i = s.lengths[1]; i < s.seq; ++i) {
      T* k = soiled.data() + (s.seq + i) * s.qkv_cols() + s.queries_per_group * s.head_dim;
      std::fill(k, k + 2 * s.head_dim, T(std::numeric_limits<float>::quiet_NaN()));
    }
    const Outcome<T> got = run(set, s, soiled.data(), dctx.data());
    EXPECT_TRUE(same_bits(clean.ctx, got.ctx)) << name_of(set);
    EXPECT_TRUE(same_bits(clean.dqkv, got.dqkv)) << name_of(set);
  }
}

TYPED_TEST(Attention, SurvivesLargeScores) {
  using T = TypeParam;
  const Problem problem(1, 200, 1, 1, 32, true);
  const AttentionShape s = problem.ready();
  auto qkv = random_values<T>(problem.qkv_count(), 1);
  for (T& x : qkv) x = T(Acc<T>(x) * 8);
  const AttentionReference expected(s, widen(qkv.data(), problem.qkv_count()).data(), nullptr);
  const auto dctx = random_values<T>(problem.ctx_count(), 2);
  for (const Isa set : available_sets()) {
    const Outcome<T> got = run(set, s, qkv.data(), dctx.data());
    EXPECT_LT(distance(widen(got.ctx.data(), problem.ctx_count()), expected.ctx),
              20 * tolerance<T>);
    EXPECT_LT(distance(widen(got.lse.data(), problem.lse_count()), expected.lse), tolerance<T>);
  }
}

// Cuts of the work change with the number of threads; the bits must not.
TYPED_TEST(Attention, DoesNotDependOnTheNumberOfThreads) {
  using T = TypeParam;
  const Problem problem = Problem(1, 600, 2, 3, 32, true).with_dropout(0.2f).with_documents(250);
  const AttentionShape s = problem.ready();
  const auto qkv = random_values<T>(problem.qkv_count(), 1);
  const auto dctx = random_values<T>(problem.ctx_count(), 2);
  for (const Isa set : available_sets()) {
    ThreadPool::set_global_size(1);
    const Outcome<T> one = run(set, s, qkv.data(), dctx.data());
    for (const int threads : {2, 3, 16}) {
      ThreadPool::set_global_size(threads);
      const Outcome<T> many = run(set, s, qkv.data(), dctx.data());
      EXPECT_TRUE(same_bits(one.ctx, many.ctx)) << name_of(set) << ", " << threads << " threads";
      EXPECT_TRUE(same_bits(one.lse, many.lse)) << name_of(set) << ", " << threads << " threads";
      EXPECT_TRUE(same_bits(one.dqkv, many.dqkv)) << name_of(set) << ", " << threads << " threads";
    }
    ThreadPool::set_global_size(0);
  }
}

// A sample alone gives the bits that it gives in a batch, dropout included.
TYPED_TEST(Attention, DoesNotDependOnTheRestOfTheBatch) {
  using T = TypeParam;
  const Problem batch = Problem(3, 130, 2, 2, 32, true).with_dropout(0.3f).with_documents(50);
  const AttentionShape s = batch.ready();
  const auto qkv = random_values<T>(batch.qkv_count(), 1);
  const auto dctx = random_values<T>(batch.ctx_count(), 2);
  AttentionShape alone = s;
  alone.batch = 1;
  alone.first_visible += 2 * s.seq;
  alone.dropout.sample_ids += 2;
  const std::int64_t qkv_at = 2 * s.seq * s.qkv_cols(), ctx_at = 2 * s.seq * s.ctx_cols();
  for (const Isa set : available_sets()) {
    const Outcome<T> all = run(set, s, qkv.data(), dctx.data());
    const Outcome<T> one = run(set, alone, qkv.data() + qkv_at, dctx.data() + ctx_at);
    EXPECT_TRUE(same_bits(one.ctx, {all.ctx.begin() + ctx_at, all.ctx.end()})) << name_of(set);
    EXPECT_TRUE(same_bits(one.dqkv, {all.dqkv.begin() + qkv_at, all.dqkv.end()})) << name_of(set);
  }
}

// Groups computed apart (as ranks of a tensor-parallel group do) give the bits of the whole layer.
TYPED_TEST(Attention, DoesNotDependOnWhichHeadsAreLocal) {
  using T = TypeParam;
  const Problem problem = Problem(1, 70, 2, 2, 32, true).with_dropout(0.3f);
  const AttentionShape s = problem.ready();
  const auto qkv = random_values<T>(problem.qkv_count(), 1);
  const auto dctx = random_values<T>(problem.ctx_count(), 2);
  AttentionShape half = s;
  half.groups = 1;
  half.first_head += s.queries_per_group;
  const auto second_half = [](const std::vector<T>& whole, std::int64_t cols) {
    std::vector<T> out;
    for (auto row = whole.begin(); row != whole.end(); row += cols) {
      out.insert(out.end(), row + cols / 2, row + cols);
    }
    return out;
  };
  const auto half_qkv = second_half(qkv, s.qkv_cols()), half_dctx = second_half(dctx, s.ctx_cols());
  for (const Isa set : available_sets()) {
    const Outcome<T> whole = run(set, s, qkv.data(), dctx.data());
    const Outcome<T> got = run(set, half, half_qkv.data(), half_dctx.data());
    EXPECT_TRUE(same_bits(got.ctx, second_half(whole.ctx, s.ctx_cols()))) << name_of(set);
    EXPECT_TRUE(same_bits(got.dqkv, second_half(whole.dqkv, s.qkv_cols()))) << name_of(set);
  }
}

// Cached attention in pieces gives the rows of causal attention over the whole, within a window, a
// chunk or neither, and with slopes or without.
TYPED_TEST(Attention, CachedInPiecesEqualsTheWhole) {
  using T = TypeParam;
  const std::int64_t capacity = 300, seq = 280;
  for (const auto& [head_dim, window, slopes, chunks] : {std::tuple{32, 0, 0, false},
                                                         {20, 0, 0, false},
                                                         {32, 37, 0, false},
                                                         {20, 1, 0, false},
                                                         {20, 0, 6, false},
                                                         {32, 37, 6, false},
                                                         {32, 37, 0, true},
                                                         {20, 2, 6, true}}) {
    // Scores are capped where there are windows and no slopes.
    const double cap = window > 0 && slopes == 0 ? 1.5 : 0;
    const Problem problem(2, seq, 2, 3, head_dim, true);
    AttentionShape s = problem.ready();
    s.alibi_heads = slopes;
    s.soft_cap = cap;
    std::vector<std::int32_t> first_visible(s.batch * seq);
    for (std::int64_t i = 0; i < s.batch * seq; ++i) {
      const auto position = static_cast<std::int32_t>(i % seq);
      first_visible[i] = chunks ? position - position % window : std::max(0, position + 1 - window);
    }
    if (window > 0) s.first_visible = first_visible.data();
    const auto qkv = random_values<T>(problem.qkv_count(), 1);
    const AttentionReference expected(s, widen(qkv.data(), problem.qkv_count()).data(), nullptr);
    for (const Isa set : available_sets()) {
      const std::int64_t cache_count = s.batch * capacity * s.groups * head_dim;
      Guarded<T> keys(cache_count), values(cache_count);
      std::vector<double> ctx(problem.ctx_count());
      std::int64_t done = 0;
      for (const std::int64_t piece : {1, 2, 7, 130, 1, 139}) {
        CachedAttentionShape c{s, capacity};
        c.seq = piece;
        c.window = window;
        c.chunks = chunks;
        std::vector<T> rows;
        for (std::int64_t b = 0; b < s.batch; ++b) {
          const auto from = qkv.begin() + (b * seq + done) * s.qkv_cols();
          rows.insert(rows.end(), from, from + piece * s.qkv_cols());
        }
        Guarded<T> out(s.batch * piece * s.ctx_cols());
        const std::vector<std::int32_t> lengths(s.batch, static_cast<std::int32_t>(done));
        kernels<T>(set).cached_attention(queue(), c, out.data(), nullptr, rows.data(), keys.data(),
                                         values.data(), lengths.data(), nullptr);
        EXPECT_TRUE(out.intact() && keys.intact() && values.intact());
        for (std::int64_t b = 0; b < s.batch; ++b) {
          const auto part = widen(out.data() + b * piece * s.ctx_cols(), piece * s.ctx_cols());
          std::copy(part.begin(), part.end(), ctx.begin() + (b * seq + done) * s.ctx_cols());
        }
        done += piece;
      }
      ASSERT_EQ(done, seq);
      EXPECT_LT(distance(ctx, expected.ctx), tolerance<T>) << name_of(set);
    }
  }
}

// Different lengths within one batch.
TYPED_TEST(Attention, CachedSequencesMayDifferInLength) {
  using T = TypeParam;
  const std::int64_t capacity = 50, head_dim = 16;
  const std::vector<std::int32_t> lengths{0, 13, 49};
  const CachedAttentionShape c{{3, 1, 1, 2, head_dim, true, 0.25}, capacity};
  const auto qkv = random_values<T>(3 * 4 * head_dim, 1);
  for (const Isa set : available_sets()) {
    auto keys = random_values<T>(3 * capacity * head_dim, 2);
    auto values = random_values<T>(3 * capacity * head_dim, 3);
    std::vector<T> ctx(3 * 2 * head_dim);
    kernels<T>(set).cached_attention(queue(), c, ctx.data(), nullptr, qkv.data(), keys.data(),
                                     values.data(), lengths.data(), nullptr);
    for (std::int64_t b = 0; b < 3; ++b) {
      const std::int64_t rows = lengths[b] + 1;
      const AttentionShape whole{1, rows, 1, 2, head_dim, true, 0.25};
      std::vector<double> full(rows * whole.qkv_cols());
      for (std::int64_t i = 0; i < rows; ++i) {
        const auto row = full.begin() + i * whole.qkv_cols();
        const auto k = widen(keys.data() + (b * capacity + i) * head_dim, head_dim);
        const auto v = widen(values.data() + (b * capacity + i) * head_dim, head_dim);
        std::copy(k.begin(), k.end(), row + 2 * head_dim);
        std::copy(v.begin(), v.end(), row + 3 * head_dim);
      }
      const auto fresh = widen(qkv.data() + b * 4 * head_dim, 4 * head_dim);
      std::copy(fresh.begin(), fresh.end(), full.end() - whole.qkv_cols());
      const AttentionReference expected(whole, full.data(), nullptr);
      EXPECT_LT(distance(widen(ctx.data() + b * 2 * head_dim, 2 * head_dim),
                         {expected.ctx.end() - 2 * head_dim, expected.ctx.end()}),
                tolerance<T>)
          << name_of(set) << ", sequence " << b;
    }
  }
}

// The gradient is the derivative of the forward kernel itself, same dropout mask included.
TEST(AttentionGradient, EqualsFiniteDifferences) {
  const Problem problem = Problem(2, 9, 1, 2, 4, true).with_dropout(0.25f).with_documents(6);
  const AttentionShape s = problem.ready();
  auto qkv = random_values<double>(problem.qkv_count(), 1);
  const auto dctx = random_values<double>(problem.ctx_count(), 2);
  for (const Isa set : available_sets()) {
    const auto got = run(set, s, qkv.data(), dctx.data());
    const auto loss = [&] {
      std::vector<double> ctx(problem.ctx_count()), lse(problem.lse_count());
      std::vector<char> workspace(attention_workspace({.isa = set}, DType::f64, s));
      kernels<double>(set).attention(queue(), s, ctx.data(), lse.data(), qkv.data(),
                                     workspace.data());
      return std::inner_product(ctx.begin(), ctx.end(), dctx.begin(), 0.0);
    };
    for (std::size_t i = 0; i < qkv.size(); ++i) {
      constexpr double step = 1e-6;
      const double x = qkv[i];
      qkv[i] = x + step;
      const double above = loss();
      qkv[i] = x - step;
      const double below = loss();
      qkv[i] = x;
      EXPECT_NEAR(got.dqkv[i], (above - below) / (2 * step), 1e-7) << name_of(set) << ", " << i;
    }
  }
}

// With equal scores and values of one, ctx is the mean of the multipliers.
TEST(AttentionDropout, KeepsTheStatedShare) {
  const Problem problem = Problem(1, 512, 1, 1, 16, false).with_dropout(0.1f);
  const AttentionShape s = problem.ready();
  std::vector<float> qkv(problem.qkv_count(), 0.0f);
  for (std::int64_t i = 0; i < s.seq; ++i) {
    for (std::int64_t d = 0; d < s.head_dim; ++d) qkv[i * s.qkv_cols() + 2 * s.head_dim + d] = 1;
  }
  for (const Isa set : available_sets()) {
    std::vector<float> ctx(problem.ctx_count()), lse(problem.lse_count());
    std::vector<char> workspace(attention_workspace({.isa = set}, DType::f32, s));
    kernels<float>(set).attention(queue(), s, ctx.data(), lse.data(), qkv.data(), workspace.data());
    double mean = 0, square = 0;
    for (std::int64_t i = 0; i < s.seq; ++i) {
      const double row = ctx[i * s.ctx_cols()];
      mean += row / static_cast<double>(s.seq);
      square += (row - 1) * (row - 1) / static_cast<double>(s.seq);
    }
    // Of 512^2 multipliers with variance p / (1 - p) = 1 / 9; rows of 512 are independent.
    EXPECT_NEAR(mean, 1, 5 * std::sqrt(1.0 / 9) / 512);
    EXPECT_NEAR(square, 1.0 / 9 / 512, 0.3 / 9 / 512);
  }
}

}  // namespace
}  // namespace trireme::cpu
