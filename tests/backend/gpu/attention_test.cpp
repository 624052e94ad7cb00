// Tests of attention on the GPU against the CPU: forward, backward and with a KV cache.
#include <limits>
#include <string>

#include "backend/cpu/workspace.h"
#include "backend/gpu/all_maps.h"
#include "backend/gpu_workspace.h"

namespace trireme {
namespace {

// A shape with all the data that it points to.
struct Problem {
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
              1 / std::sqrt(static_cast<double>(head_dim))} {}
  Problem& with_documents(std::int64_t length) {
    for (std::int64_t b = 0; b < shape.batch; ++b)
      for (std::int64_t i = 0; i < shape.seq; ++i)
        first_visible.push_back(
            static_cast<std::int32_t>(std::max<std::int64_t>(0, (i + b) / length * length - b)));
    return *this;
  }
  Problem& with_lengths() {
    for (std::int64_t b = 0; b < shape.batch; ++b)
      lengths.push_back(static_cast<std::int32_t>(shape.seq - b * shape.seq / shape.batch));
    return *this;
  }
  Problem& with_dropout(float probability) {
    for (std::int64_t b = 0; b < shape.batch; ++b) sample_ids.push_back(b * 7'000'000'001 + 5);
    shape.dropout.probability = probability;
    shape.dropout.site = 11;
    shape.first_head = 2;
    return *this;
  }
  Problem& with_cap(double cap) {
    shape.soft_cap = cap;
    return *this;
  }
  std::size_t qkv_count() const { return size(shape.batch * shape.seq * shape.qkv_cols()); }
  std::size_t ctx_count() const { return size(shape.batch * shape.seq * shape.ctx_cols()); }
  std::size_t lse_count() const { return size(shape.batch * shape.heads() * shape.seq); }
  std::string text() const {
    return "batch " + std::to_string(shape.batch) + " seq " + std::to_string(shape.seq) +
           " groups " + std::to_string(shape.groups) + " x " +
           std::to_string(shape.queries_per_group) + " head_dim " + std::to_string(shape.head_dim) +
           (shape.causal ? " causal" : "") + (first_visible.empty() ? "" : " documents") +
           (lengths.empty() ? "" : " lengths") + (sample_ids.empty() ? "" : " dropout") +
           (shape.soft_cap > 0 ? " cap " + std::to_string(shape.soft_cap) : "");
  }

 private:
  static std::size_t size(std::int64_t x) { return static_cast<std::size_t>(x); }
};

template <class T>
struct Inputs {
  std::vector<T> qkv, dctx;
  explicit Inputs(const Problem& p)
      : qkv(normal_values<T>(p.qkv_count(), 1)), dctx(normal_values<T>(p.ctx_count(), 2)) {}
};

template <class T>
struct Outcome {
  std::vector<T> ctx;
  std::vector<float> lse;
  std::vector<T> dqkv;
};

template <class T>
std::int64_t workspace_of(Device& device, const AttentionShape& s) {
  return &device == &cpu::device()
             ? cpu::attention_workspace(device.target(), dtype_of<T>, s)
             : gpu::attention_workspace(dtype_of<T>, s) + gpu::attention_bias_workspace(s);
}

// The gradient of a bias that attention_grad makes, added up `times` times: the sum over the rows
// of the gradients.
template <class T>
void expect_sums_of_rows(const std::vector<float>& dbias, const std::vector<T>& dqkv, int times) {
  const std::size_t columns = dbias.size();
  std::vector<double> sums(columns), sizes(columns);
  for (std::size_t i = 0; i < dqkv.size(); ++i) {
    sums[i % columns] += times * static_cast<float>(dqkv[i]);
    sizes[i % columns] += times * std::abs(static_cast<float>(dqkv[i]));
  }
  for (std::size_t c = 0; c < columns; ++c)
    ASSERT_NEAR(dbias[c], sums[c], 1e-6 * sizes[c]) << "column " << c;
}

// Runs the forward pass, and the backward pass from its results.
template <class T>
Outcome<T> run(Device& device, const Problem& p, const Inputs<T>& inputs) {
  const OnDevice<T> qkv(device, inputs.qkv), dctx(device, inputs.dctx);
  const OnDevice<std::int32_t> first_visible(device, p.first_visible), lengths(device, p.lengths);
  const OnDevice<std::int64_t> ids(device, p.sample_ids);
  const OnDevice<StepBlock> block(device, {StepBlock{.seed = 0x123456789abcdef, .step = 3}});
  AttentionShape s = p.shape;
  if (!p.first_visible.empty()) s.first_visible = first_visible.get();
  if (!p.lengths.empty()) s.lengths = lengths.get();
  s.dropout.block = block.get();
  s.dropout.sample_ids = ids.get();
  const OnDevice<char> workspace(device, static_cast<std::size_t>(workspace_of<T>(device, s)));
  const T nan(std::numeric_limits<float>::quiet_NaN());
  const OnDevice<T> ctx(device, std::vector<T>(p.ctx_count(), nan));
  const OnDevice<T> dqkv(device, std::vector<T>(p.qkv_count(), nan));
  const OnDevice<float> lse(device, p.lse_count());
  const Kernels<T>& kernels = device.kernels<T>();
  kernels.attention(device.queue(), s, ctx.get(), lse.get(), qkv.get(), workspace.get());
  const bool sums = device.target().device != DeviceKind::cpu;
  const OnDevice<float> dbias(device, static_cast<std::size_t>(s.qkv_cols()));
  AttentionGradOperands<T> o{.dqkv = dqkv.get(),
                             .dctx = dctx.get(),
                             .qkv = qkv.get(),
                             .ctx = ctx.get(),
                             .lse = lse.get(),
                             .dbias = sums ? dbias.get() : nullptr,
                             .workspace = workspace.get()};
  kernels.attention_grad(device.queue(), s, o);
  if (sums) {
    expect_sums_of_rows(dbias.values(), dqkv.values(), 1);
    o.accumulate = true;
    kernels.attention_grad(device.queue(), s, o);
    expect_sums_of_rows(dbias.values(), dqkv.values(), 2);
  }
  return {ctx.values(), lse.values(), dqkv.values()};
}

// Returns |a - b| / |b| in the Euclidean norm; infinities must match, NaN never does.
template <class V>
double distance(const std::vector<V>& a, const std::vector<V>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
    if (x != y) difference += (x - y) * (x - y);
    if (std::isfinite(y)) size += y * y;
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

// Tolerance for two results that round the factors of products to T.
template <class T>
double tolerance() {
  if constexpr (std::is_same_v<T, bf16>) return 1e-2;
  if constexpr (std::is_same_v<T, f16>) return 1e-3;
  return 2e-6;
}

template <class Body>
void for_types(const Body& body) {
  body(float{}), body(bf16{}), body(f16{});
}

class Attention : public OnAllMaps {
 protected:
  // `times` multiplies the tolerance of the gradient.
  void expect_as_cpu(const Problem& p, double times = 1) {
    SCOPED_TRACE(p.text());
    for_types([&]<class T>(T) {
      SCOPED_TRACE(name_of(dtype_of<T>));
      const Inputs<T> inputs(p);
      const auto [expected, got] =
          on_both([&](Device& device) { return run<T>(device, p, inputs); });
      EXPECT_LT(distance(got.ctx, expected.ctx), tolerance<T>());
      EXPECT_LT(distance(got.lse, expected.lse), 2e-6);
      EXPECT_LT(distance(got.dqkv, expected.dqkv), times * tolerance<T>());
    });
  }
};
TRIREME_ON_ALL_MAPS(Attention);

TEST_P(Attention, OfAnyLengthEqualsTheCpus) {
  for (const std::int64_t seq : {1, 7, 64, 65, 130})
    for (const bool causal : {true, false}) expect_as_cpu(Problem(2, seq, 1, 1, 40, causal));
  expect_as_cpu(Problem(1, 200, 1, 1, 128, true));
  expect_as_cpu(Problem(2, 65, 1, 1, 16, true));  // without matrix units
}

// Grids larger than a GPU and full pipelines: too slow for emulation.
TEST_P(Attention, OfLongSequencesEqualsTheCpus) {
  if (!is_real(plugin_under_test(GetParam()))) GTEST_SKIP() << "for real GPUs only";
  for (const std::int64_t seq : {1024, 2048, 8192}) {
    expect_as_cpu(Problem(1, seq, 1, 2, 128, true), 2);
    expect_as_cpu(Problem(1, seq, 2, 1, 64, true), 2);
  }
  expect_as_cpu(Problem(2, 4096, 1, 4, 128, true).with_documents(1500), 2);
}

TEST_P(Attention, OfAnyHeadDimEqualsTheCpus) {
  for (const std::int64_t head_dim : {4, 8, 12, 32, 40, 64, 80, 96, 128, 256})
    expect_as_cpu(Problem(1, 70, 1, 1, head_dim, true));
  for (const std::int64_t head_dim : {64, 96, 128, 256})
    expect_as_cpu(Problem(1, 70, 1, 1, head_dim, false));
}

TEST_P(Attention, OfGroupedHeadsEqualsTheCpus) {
  expect_as_cpu(Problem(2, 65, 2, 3, 40, true));
  expect_as_cpu(Problem(1, 20, 1, 7, 36, false));
}

TEST_P(Attention, OfPackedDocumentsEqualsTheCpus) {
  for (const std::int64_t length : {5, 33, 64})
    expect_as_cpu(Problem(2, 200, 1, 2, 40, true).with_documents(length));
  expect_as_cpu(Problem(1, 130, 1, 1, 128, true).with_documents(70));
}

// The layer's number of heads is a power of two, and not one; this rank has the last heads.
TEST_P(Attention, WithSlopesEqualsTheCpus) {
  for (const std::int64_t heads : {4, 6}) {
    Problem p = Problem(2, 130, 1, 2, 40, true);
    p.shape.alibi_heads = heads;
    p.shape.first_head = heads - 2;
    expect_as_cpu(p);
    expect_as_cpu(p.with_documents(33));
  }
}

TEST_P(Attention, OfPaddedSamplesEqualsTheCpus) {
  expect_as_cpu(Problem(3, 150, 2, 1, 40, false).with_lengths());
  expect_as_cpu(Problem(3, 150, 1, 2, 40, true).with_lengths());
  expect_as_cpu(Problem(3, 100, 1, 1, 40, true).with_lengths().with_documents(20));
}

TEST_P(Attention, DropsWhatTheCpuDrops) {
  expect_as_cpu(Problem(2, 130, 2, 2, 40, true).with_dropout(0.1f));
  expect_as_cpu(Problem(1, 65, 1, 1, 128, false).with_dropout(0.5f));
  expect_as_cpu(Problem(2, 65, 1, 1, 40, false).with_dropout(0.3f).with_lengths());
}

// Scores have a deviation of 1: a cap of 1 bends all of them, one of 50 only few.
TEST_P(Attention, WithACapEqualsTheCpus) {
  for (const std::int64_t head_dim : {12, 64, 96, 128, 256})
    expect_as_cpu(Problem(1, 70, 1, 1, head_dim, true).with_cap(1));
  expect_as_cpu(Problem(2, 65, 2, 3, 40, false).with_cap(50));
  expect_as_cpu(Problem(2, 130, 1, 2, 40, true).with_cap(0.7).with_documents(33));
  expect_as_cpu(Problem(3, 100, 1, 2, 40, true).with_cap(1).with_lengths());
  expect_as_cpu(Problem(2, 65, 1, 2, 64, true).with_cap(1).with_dropout(0.3f));
  // Scores far beyond the cap, where tanh is flat: rounding leaves fewer digits of 1 - tanh^2.
  Problem flat = Problem(2, 70, 1, 1, 40, true).with_cap(3);
  flat.shape.scale = 10;
  expect_as_cpu(flat, 4);
}

// Compares the derivative of the sum of ctx * dctx along a direction with the gradient.
TEST_P(Attention, WithACapHasTheGradientOfItsResult) {
  Problem p = Problem(1, 37, 1, 2, 16, true).with_cap(0.8).with_dropout(0.2f).with_documents(20);
  p.shape.scale = 0.5;
  const Inputs<float> inputs(p);
  const auto direction = normal_values<float>(p.qkv_count(), 3);
  const auto value_at = [&](double step) {
    Inputs<float> moved = inputs;
    for (std::size_t i = 0; i < moved.qkv.size(); ++i)
      moved.qkv[i] += static_cast<float>(step * direction[i]);
    const auto ctx = run<float>(gpu_, p, moved).ctx;
    double value = 0;
    for (std::size_t i = 0; i < ctx.size(); ++i) value += double{ctx[i]} * double{inputs.dctx[i]};
    return value;
  };
  const auto dqkv = run<float>(gpu_, p, inputs).dqkv;
  double slope = 0;
  for (std::size_t i = 0; i < dqkv.size(); ++i) slope += double{dqkv[i]} * double{direction[i]};
  // A fourth-order difference, so that the step can be large compared with rounding errors.
  const double h = 0.01;
  const double found =
      (8 * (value_at(h) - value_at(-h)) - (value_at(2 * h) - value_at(-2 * h))) / (12 * h);
  EXPECT_NEAR(found / slope, 1, 1e-4);
}

TEST_P(Attention, NeverReadsPadding) {
  const Problem p = Problem(2, 100, 1, 2, 40, true).with_lengths();
  for_types([&]<class T>(T) {
    Inputs<T> inputs(p);
    const Outcome<T> clean = run(gpu_, p, inputs);
    const AttentionShape& s = p.shape;
    for (std::int64_t i = p.lengths[1]; i < s.seq; ++i) {
      T* const k =
          inputs.qkv.data() + (s.seq + i) * s.qkv_cols() + s.queries_per_group * s.head_dim;
      std::fill(k, k + 2 * s.head_dim, T(std::numeric_limits<float>::quiet_NaN()));
    }
    const Outcome<T> soiled = run(gpu_, p, inputs);
    EXPECT_TRUE(same_bits(clean.ctx, soiled.ctx));
    EXPECT_TRUE(same_bits(clean.dqkv, soiled.dqkv));
  });
}

// A sample's bits are the same alone and among others, and for other thread orders.
TEST_P(Attention, OfASampleHasTheSameBitsAlwaysAndEverywhere) {
  const Problem three = Problem(3, 70, 1, 2, 32, true).with_dropout(0.1f).with_documents(30);
  Problem one = Problem(1, 70, 1, 2, 32, true).with_dropout(0.1f).with_documents(30);
  for_types([&]<class T>(T) {
    const Inputs<T> inputs(three);
    Inputs<T> first = inputs;
    first.qkv.resize(one.qkv_count());
    first.dctx.resize(one.ctx_count());
    const Outcome<T> alone = run(gpu_, one, first);
    Outcome<T> among = run(gpu_, three, inputs);
    among.ctx.resize(one.ctx_count());
    among.dqkv.resize(one.qkv_count());
    EXPECT_TRUE(same_bits(alone.ctx, among.ctx));
    EXPECT_TRUE(same_bits(alone.dqkv, among.dqkv));
    set_thread_order(7);
    const Outcome<T> again = run(gpu_, one, first);
    set_thread_order(0);
    EXPECT_TRUE(same_bits(alone.ctx, again.ctx));
    EXPECT_TRUE(same_bits(alone.lse, again.lse));
    EXPECT_TRUE(same_bits(alone.dqkv, again.dqkv));
  });
}

// --- ranks that have two chunks of each sequence ---

// Returns the positions of a rank's rows in buffers of whole sequences, in the rank's order.
std::vector<std::size_t> rows_of_rank(const AttentionShape& s) {
  std::vector<std::size_t> rows;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t i = 0; i < 2 * s.cut.chunk; ++i)
      rows.push_back(static_cast<std::size_t>(b * s.seq + s.cut.position(i)));
  return rows;
}

// Returns columns [first, first + count) of those rows; `width` is the total number of columns.
template <class V>
std::vector<V> take_pieces(const std::vector<V>& from, const std::vector<std::size_t>& rows,
                           std::int64_t width, std::int64_t first, std::int64_t count) {
  std::vector<V> taken;
  for (const std::size_t row : rows) {
    const auto at = from.begin() + static_cast<std::ptrdiff_t>(row) * width + first;
    taken.insert(taken.end(), at, at + count);
  }
  return taken;
}

// Copies one number per query and head from a rank's order to that of whole sequences.
void put_statistics(std::vector<float>& whole, const std::vector<float>& own,
                    const AttentionShape& s) {
  auto next = own.begin();
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t g = 0; g < s.groups; ++g)
      for (std::int64_t half = 0; half < 2; ++half)
        for (std::int64_t h = g * s.queries_per_group; h < (g + 1) * s.queries_per_group; ++h)
          for (std::int64_t i = 0; i < s.cut.chunk; ++i)
            whole[static_cast<std::size_t>((b * s.heads() + h) * s.seq + s.cut.first[half] + i)] =
                *next++;
}

// Expects the bits of attention over whole sequences, for any number of ranks that share them.
template <class T>
void expect_as_whole(Device& gpu, const Problem& p, std::int64_t ranks) {
  SCOPED_TRACE(p.text());
  const Inputs<T> inputs(p);
  const Outcome<T> whole = run<T>(gpu, p, inputs);
  const OnDevice<T> qkv(gpu, inputs.qkv), dctx(gpu, inputs.dctx);
  const OnDevice<std::int32_t> first_visible(gpu, p.first_visible);
  const OnDevice<std::int64_t> ids(gpu, p.sample_ids);
  const OnDevice<StepBlock> block(gpu, {StepBlock{.seed = 0x123456789abcdef, .step = 3}});
  AttentionShape s = p.shape;
  if (!p.first_visible.empty()) s.first_visible = first_visible.get();
  s.dropout.block = block.get();
  s.dropout.sample_ids = ids.get();
  s.cut.chunk = s.seq / (2 * ranks);
  std::vector<std::size_t> every(static_cast<std::size_t>(s.batch * s.seq));
  for (std::size_t i = 0; i < every.size(); ++i) every[i] = i;
  // One key and its value from each group of columns.
  std::vector<T> keys;
  const std::int64_t group = (s.queries_per_group + 2) * s.head_dim;
  for (const std::size_t row : every) {
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const auto piece = take_pieces(inputs.qkv, {row}, s.qkv_cols(),
                                     (g + 1) * group - 2 * s.head_dim, 2 * s.head_dim);
      keys.insert(keys.end(), piece.begin(), piece.end());
    }
  }
  const OnDevice<T> kv(gpu, keys);
  std::vector<float> all_lse(p.lse_count()), all_delta(p.lse_count());
  const Kernels<T>& kernels = gpu.kernels<T>();
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    s.cut.first[0] = rank * s.cut.chunk;
    s.cut.first[1] = (2 * ranks - 1 - rank) * s.cut.chunk;
    const auto rows = rows_of_rank(s);
    const OnDevice<T> own(gpu, take_pieces(inputs.qkv, rows, s.qkv_cols(), 0, s.qkv_cols()));
    const OnDevice<T> own_dctx(gpu, take_pieces(inputs.dctx, rows, s.ctx_cols(), 0, s.ctx_cols()));
    const OnDevice<T> ctx(gpu, rows.size() * static_cast<std::size_t>(s.ctx_cols()));
    const OnDevice<float> lse(gpu, p.lse_count() / static_cast<std::size_t>(ranks));
    const OnDevice<float> delta(gpu, p.lse_count() / static_cast<std::size_t>(ranks));
    kernels.context_attention(gpu.queue(), s, ctx.get(), lse.get(), own.get(), kv.get());
    kernels.attention_delta(gpu.queue(), s, delta.get(), ctx.get(), own_dctx.get());
    EXPECT_TRUE(
        same_bits(ctx.values(), take_pieces(whole.ctx, rows, s.ctx_cols(), 0, s.ctx_cols())));
    put_statistics(all_lse, lse.values(), s);
    put_statistics(all_delta, delta.values(), s);
  }
  EXPECT_TRUE(same_bits(all_lse, whole.lse));
  const OnDevice<float> lse(gpu, all_lse), delta(gpu, all_delta);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    s.cut.first[0] = rank * s.cut.chunk;
    s.cut.first[1] = (2 * ranks - 1 - rank) * s.cut.chunk;
    const auto rows = rows_of_rank(s);
    const T nan(std::numeric_limits<float>::quiet_NaN());
    const OnDevice<T> dqkv(
        gpu, std::vector<T>(rows.size() * static_cast<std::size_t>(s.qkv_cols()), nan));
    kernels.context_attention_grad(gpu.queue(), s, dqkv.get(), qkv.get(), dctx.get(), lse.get(),
                                   delta.get(), nullptr);
    EXPECT_TRUE(
        same_bits(dqkv.values(), take_pieces(whole.dqkv, rows, s.qkv_cols(), 0, s.qkv_cols())));
  }
}

TEST_P(Attention, OfChunksHasTheBitsOfWholeSequences) {
  for_types([&]<class T>(T) {
    expect_as_whole<T>(gpu_, Problem(2, 84, 2, 2, 40, true), 2);  // chunks of 21 positions
    expect_as_whole<T>(gpu_, Problem(1, 84, 1, 2, 16, true).with_documents(30), 2);
    expect_as_whole<T>(gpu_, Problem(1, 200, 1, 1, 128, true), 2);
    expect_as_whole<T>(gpu_, Problem(1, 192, 1, 1, 128, true).with_dropout(0.2f), 1);
    Problem p = Problem(2, 168, 1, 3, 40, true).with_documents(40).with_dropout(0.1f);
    p.shape.alibi_heads = 5;
    expect_as_whole<T>(gpu_, p, 4);
    expect_as_whole<T>(gpu_, Problem(1, 80, 1, 2, 40, true).with_cap(1).with_documents(30), 2);
  });
}

// --- with a cache ---

struct CachedProblem {
  CachedAttentionShape shape;
  std::vector<std::int32_t> lengths;  // before the new positions

  std::size_t qkv_count() const {
    return static_cast<std::size_t>(shape.batch * shape.seq * shape.groups *
                                    (shape.queries_per_group + 2) * shape.head_dim);
  }
  std::size_t cache_count() const {
    return static_cast<std::size_t>(shape.batch * shape.capacity * shape.groups * shape.head_dim);
  }
  std::size_t ctx_count() const {
    return static_cast<std::size_t>(shape.batch * shape.seq * shape.groups *
                                    shape.queries_per_group * shape.head_dim);
  }
};

class CachedAttention : public OnAllMaps {
 protected:
  void expect_as_cpu(const CachedProblem& p) {
    for_types([&]<class T>(T) {
      const auto inputs = normal_values<T>(p.qkv_count(), 1);
      const auto keys = normal_values<T>(p.cache_count(), 2);
      const auto values = normal_values<T>(p.cache_count(), 3);
      std::vector<std::vector<T>> results[2];
      for (Device* device : {&cpu_, &gpu_}) {
        const OnDevice<T> qkv(*device, inputs), k(*device, keys), v(*device, values);
        const OnDevice<T> ctx(*device, p.ctx_count());
        const OnDevice<std::int32_t> lengths(*device, p.lengths);
        const GuardedScratch workspace(*device, gpu::cached_attention_workspace(p.shape));
        device->kernels<T>().cached_attention(device->queue(), p.shape, ctx.get(), nullptr,
                                              qkv.get(), k.get(), v.get(), lengths.get(),
                                              workspace.as<float>());
        EXPECT_TRUE(workspace.was_kept_to());
        results[device == &gpu_] = {ctx.values(), k.values(), v.values()};
      }
      EXPECT_LT(distance(results[1][0], results[0][0]), tolerance<T>());
      EXPECT_TRUE(same_bits(results[1][1], results[0][1]));
      EXPECT_TRUE(same_bits(results[1][2], results[0][2]));
    });
  }
};
TRIREME_ON_ALL_MAPS(CachedAttention);

TEST_P(CachedAttention, OfOneNewPositionEqualsTheCpus) {
  expect_as_cpu({{{3, 1, 2, 2, 40, true, 0.25}, 150}, {0, 70, 149}});
  expect_as_cpu({{{1, 1, 1, 1, 12, true, 0.3}, 20}, {5}});
  expect_as_cpu({{{1, 1, 1, 4, 128, true, 0.1}, 300}, {290}});
}

TEST_P(CachedAttention, OfALongCacheEqualsTheCpus) {
  // Several pieces of 256 keys, the last with one key, for all samples, and pieces that a shorter
  // sample does not have.
  expect_as_cpu({{{3, 1, 1, 2, 64, true, 0.125}, 1030}, {256, 1023, 3}});
  expect_as_cpu({{{1, 4, 1, 2, 40, true, 0.25}, 600}, {510}});  // causal across a piece boundary
}

TEST_P(CachedAttention, WithSlopesAndWithinAWindowEqualsTheCpus) {
  for (const std::int64_t alibi_heads : {0, 6}) {
    for (const std::int64_t window : {0, 5, 300}) {
      expect_as_cpu(
          {{{2, 1, 1, 2, 40, true, 0.25, 4, {}, alibi_heads, 0, window}, 1030}, {700, 3}});
      expect_as_cpu(
          {{{2, 40, 1, 2, 40, true, 0.25, 0, {}, alibi_heads, 0, window}, 450}, {0, 401}});
      if (window == 0) continue;
      expect_as_cpu(
          {{{2, 40, 1, 2, 40, true, 0.25, 0, {}, alibi_heads, 0, window, true}, 450}, {0, 401}});
    }
  }
}

TEST_P(CachedAttention, WithACapEqualsTheCpus) {
  for (const std::int64_t window : {0, 20}) {
    expect_as_cpu({{{2, 1, 1, 2, 40, true, 0.25, 0, {}, 0, 1.5, window}, 300}, {270, 3}});
    expect_as_cpu({{{2, 40, 1, 2, 40, true, 0.25, 0, {}, 0, 1.5, window}, 150}, {0, 110}});
  }
}

TEST_P(CachedAttention, OfManyNewPositionsEqualsTheCpus) {
  expect_as_cpu({{{2, 40, 1, 2, 40, true, 0.25}, 150}, {0, 110}});
  expect_as_cpu({{{2, 3, 2, 1, 64, true, 0.125}, 90}, {1, 80}});
}

}  // namespace
}  // namespace trireme
