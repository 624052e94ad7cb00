// The short convolution of linear attention, its gradients, and its continuation in generation;
// gates of heads and decays.
#include <numeric>

#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

// More than one block of channels and of positions, and one of each.
constexpr ShortConvRule large{{2, 70}, 300, 4}, small{{3, 5}, 7, 3}, single{{1, 3}, 5, 1};

std::vector<std::int32_t> documents_of(const ShortConvRule& s) {
  std::vector<std::int32_t> first;
  for (std::int64_t i = 0; i < s.batch * s.seq; ++i)
    first.push_back(static_cast<std::int32_t>(i % s.seq / 3 * 3));
  return first;
}

// Without a bias it is empty.
std::vector<double> reference(const ShortConvRule& s, const std::vector<double>& x,
                              const std::vector<double>& weight, const std::vector<double>& bias,
                              const std::int32_t* first_visible) {
  std::vector<double> y(x.size());
  for (std::int64_t row = 0; row < s.batch * s.seq; ++row) {
    const std::int64_t begin = first_visible ? first_visible[row] : 0;
    for (std::int64_t c = 0; c < s.channels; ++c) {
      double sum = bias.empty() ? 0 : bias[c];
      for (std::int64_t back = 0; back < s.width && row % s.seq - back >= begin; ++back)
        sum += weight[c * s.width + s.width - 1 - back] * x[(row - back) * s.channels + c];
      y[row * s.channels + c] = sum / (1 + std::exp(-sum));
    }
  }
  return y;
}

template <class T>
class ShortConv : public testing::Test {};
TYPED_TEST_SUITE(ShortConv, StorageTypes);

TYPED_TEST(ShortConv, SeesTheNewestPositionsOfADocument) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const ShortConvRule& rule : {large, small, single}) {
      const auto x = random_values<T>(rule.batch * rule.seq * rule.channels, 1);
      const auto weight = random_values<T>(rule.channels * rule.width, 2);
      const auto documents = documents_of(rule);
      for (const std::int32_t* first_visible :
           {static_cast<const std::int32_t*>(nullptr), documents.data()}) {
        for (const std::int64_t biases : {std::int64_t{0}, rule.channels}) {
          const auto bias = random_values<T>(biases, 3);
          const Guarded<T> added(bias);
          Guarded<T> y(x.size());
          kernels<T>(set).short_conv(queue(), {rule, {.first_visible = first_visible}}, y.data(),
                                     Guarded<T>(x).data(), Guarded<T>(weight).data(),
                                     biases > 0 ? added.data() : nullptr, nullptr);
          EXPECT_TRUE(close(y, reference(rule, x, weight, bias, first_visible), 16));
        }
      }
    }
  });
}

TEST(ShortConvGradient, IsThatOfTheConvolution) {
  with_sets([](Isa set) {
    for (const ShortConvRule& rule : {large, small, single}) {
      const auto documents = documents_of(rule);
      for (const bool packed : {false, true}) {
        const ShortConvShape s{rule, {.first_visible = packed ? documents.data() : nullptr}};
        const std::int64_t rows = rule.batch * rule.seq, first = rows / 3;
        auto x = random_values<double>(rows * rule.channels, 1);
        auto weight = random_values<double>(rule.channels * rule.width, 2);
        auto bias = random_values<double>(packed ? 0 : rule.channels, 4);
        const auto dy = random_values<double>(x.size(), 3);
        Guarded<double> dx(x.size()), dweight(weight.size()), dbias(bias.size());
        Guarded<double> workspace(norm_grad_workspace(rows, rule.channels * (rule.width + 1)));
        const auto& k = kernels<double>(set);
        const Guarded<double> from(x), by(weight), added(bias), grad(dy);
        ShortConvGradOperands<double> o{.dweight = dweight.data(),
                                        .dbias = packed ? nullptr : dbias.data(),
                                        .dy = grad.data(),
                                        .x = from.data(),
                                        .weight = by.data(),
                                        .bias = packed ? nullptr : added.data(),
                                        .workspace = workspace.data()};
        k.short_conv_input_grad(queue(), s, dx.data(), o.dy, o.x, o.weight, o.bias);
        // The rows in two parts.
        k.short_conv_weight_grad(queue(), s, o, 0, first);
        o.accumulate = true;
        k.short_conv_weight_grad(queue(), s, o, first, rows - first);
        EXPECT_TRUE(dx.intact() && dweight.intact() && dbias.intact() && workspace.intact());
        const auto objective = [&] {
          const auto y = reference(rule, x, weight, bias, s.places.first_visible);
          return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
        };
        const std::size_t step = x.size() / 15 + 1;
        for (std::size_t i = 0; i < x.size(); i += step)
          EXPECT_NEAR(dx[i], slope(x[i], objective), 1e-6) << i;
        for (std::size_t i = 0; i < weight.size(); i += weight.size() / 15 + 1)
          EXPECT_NEAR(dweight[i], slope(weight[i], objective), 1e-6) << i;
        for (std::size_t i = 0; i < bias.size(); i += bias.size() / 15 + 1)
          EXPECT_NEAR(dbias[i], slope(bias[i], objective), 1e-6) << i;
      }
    }
  });
}

TEST(ShortConvInputs, ContinueWhereTheyEnded) {
  with_sets([](Isa set) {
    const auto x = random_values<double>(large.batch * large.seq * large.channels, 1);
    const auto weight = random_values<double>(large.channels * large.width, 2);
    const auto expected = reference(large, x, weight, {}, nullptr);
    ShortConvRule piece = large;
    piece.seq = 5;
    Guarded<double> inputs(large.batch * (large.width - 1) * large.channels);
    std::vector<std::int32_t> lengths(large.batch, 0);
    for (std::int32_t turn = 0; turn < 12; ++turn) {
      const std::vector<std::int32_t> counts = {1 + turn % 5, turn % 3};
      std::vector<double> own(piece.batch * piece.seq * piece.channels, NAN);
      for (std::int64_t b = 0; b < piece.batch; ++b)
        std::copy_n(x.begin() + (b * large.seq + lengths[b]) * large.channels,
                    counts[b] * large.channels, own.begin() + b * piece.seq * large.channels);
      Guarded<double> y(own.size());
      kernels<double>(set).short_conv(
          queue(), {piece, {.lengths = lengths.data(), .new_tokens = counts.data()}}, y.data(),
          Guarded<double>(own).data(), Guarded<double>(weight).data(), nullptr, inputs.data());
      for (std::int64_t b = 0; b < piece.batch; ++b) {
        for (std::int64_t i = 0; i < counts[b] * large.channels; ++i)
          ASSERT_NEAR(y[b * piece.seq * large.channels + i],
                      expected[(b * large.seq + lengths[b]) * large.channels + i], 1e-12);
        lengths[b] += counts[b];
      }
    }
    EXPECT_TRUE(inputs.intact());
  });
}

// --- gates of heads
struct GateValues {
  std::vector<double> x, gate, weight;
};

double activation_of(const GateHeadsShape& s, double gate) {
  return (s.silu ? gate : 1) / (1 + std::exp(-gate));
}

// The norm of gated heads, each of which has its own weights.
std::vector<double> norm_reference(const GateHeadsShape& s, const GateValues& v) {
  std::vector<double> y(v.x.size());
  for (std::int64_t head = 0; head < s.rows * s.heads; ++head) {
    double squares = 0;
    for (std::int64_t i = head * s.head_dim; i < (head + 1) * s.head_dim; ++i) {
      y[i] = v.x[i] * activation_of(s, v.gate[i]);
      squares += y[i] * y[i];
    }
    const double scale = 1 / std::sqrt(squares / static_cast<double>(s.head_dim) + s.eps);
    for (std::int64_t i = 0; i < s.head_dim; ++i)
      y[head * s.head_dim + i] *= scale * v.weight[head % s.heads * s.head_dim + i];
  }
  return y;
}

std::vector<double> gate_reference(const GateHeadsShape& s, const GateValues& v) {
  if (s.gates_first) return norm_reference(s, v);
  std::vector<double> y(v.x.size());
  for (std::int64_t head = 0; head < s.rows * s.heads; ++head) {
    const double* const x = v.x.data() + head * s.head_dim;
    const double mean =
        std::inner_product(x, x + s.head_dim, x, 0.0) / static_cast<double>(s.head_dim);
    for (std::int64_t i = 0; i < s.head_dim; ++i) {
      const double normed = s.norm ? x[i] / std::sqrt(mean + s.eps) * v.weight[i] : x[i];
      y[head * s.head_dim + i] = normed * activation_of(s, v.gate[head * s.head_dim + i]);
    }
  }
  return y;
}

GateHeadsShape gate_shape(std::int64_t head_dim, bool silu, bool norm, std::int64_t rows,
                          std::int64_t heads, bool gates_first = false) {
  return {{head_dim, silu, norm, norm ? 1e-3 : 0, gates_first}, rows, heads, heads * head_dim};
}

template <class T>
class GateHeads : public testing::Test {};
TYPED_TEST_SUITE(GateHeads, StorageTypes);

TYPED_TEST(GateHeads, MultiplyNormalizedHeads) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const GateHeadsShape& s :
         {gate_shape(7, true, true, 5, 3), gate_shape(64, true, true, 33, 2),
          gate_shape(9, false, false, 4, 3), gate_shape(9, true, true, 4, 3, true),
          gate_shape(70, true, true, 33, 2, true)}) {
      const GateValues v{random_values<T>(s.rows * s.stride, 1),
                         random_values<T>(s.rows * s.stride, 2),
                         random_values<T>(s.weights(s.heads), 3)};
      Guarded<T> y(v.x.size());
      kernels<T>(set).gate_heads(queue(), s, y.data(), Guarded<T>(v.x).data(),
                                 Guarded<T>(v.gate).data(), Guarded<T>(v.weight).data());
      EXPECT_TRUE(close(y, gate_reference(s, v), 16));
    }
  });
}

// --- decays
TEST(DecayRates, AreOfEachHead) {
  constexpr DecayShape s{{2, 3}, 4};
  const auto ba = random_values<double>(s.rows * 2 * s.heads(), 1, 4);
  const auto a_log = random_values<double>(s.heads(), 2),
             bias = random_values<double>(s.heads(), 3);
  with_sets([&](Isa set) {
    Guarded<double> rates(s.rows * 2 * s.heads());
    kernels<double>(set).decay_rates(queue(), s, rates.data(), Guarded<double>(ba).data(),
                                     Guarded<double>(a_log).data(), Guarded<double>(bias).data(),
                                     nullptr);
    for (std::int64_t row = 0; row < s.rows; ++row) {
      for (std::int64_t head = 0; head < s.heads(); ++head) {
        const double* const group = ba.data() + (row * 2 + head / 3) * 6;
        const double b = group[head % 3], a = group[3 + head % 3];
        const double* const found = rates.data() + row * 2 * s.heads() + head;
        EXPECT_NEAR(found[0], -std::exp(a_log[head]) * std::log1p(std::exp(a + bias[head])), 1e-12);
        EXPECT_NEAR(found[s.heads()], 1 / (1 + std::exp(-b)), 1e-12);
      }
    }
  });
}

TEST(DecayRates, OfTimeStepsHaveSkips) {
  constexpr DecayShape s{{2, 3, true}, 4};
  const auto steps = random_values<double>(s.rows * s.heads(), 1, 4);
  const auto a_log = random_values<double>(s.heads(), 2),
             bias = random_values<double>(s.heads(), 3), skip = random_values<double>(s.heads(), 5);
  with_sets([&](Isa set) {
    Guarded<double> rates(s.rows * s.rate_cols());
    kernels<double>(set).decay_rates(queue(), s, rates.data(), Guarded<double>(steps).data(),
                                     Guarded<double>(a_log).data(), Guarded<double>(bias).data(),
                                     Guarded<double>(skip).data());
    for (std::int64_t i = 0; i < s.rows * s.heads(); ++i) {
      const std::int64_t head = i % s.heads();
      const double step = std::log1p(std::exp(steps[i] + bias[head]));
      const double* const found = rates.data() + i / s.heads() * s.rate_cols() + head;
      EXPECT_NEAR(found[0], -std::exp(a_log[head]) * step, 1e-12);
      EXPECT_NEAR(found[s.heads()], step, 1e-12);
      EXPECT_EQ(found[2 * s.heads()], skip[head]);
    }
  });
}

}  // namespace
}  // namespace trireme::cpu
