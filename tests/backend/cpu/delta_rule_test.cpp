// The gated delta rule and the state space of Mamba-2 by chunks against the recurrence position by
// position, their gradients, and their continuation from a state.
#include <numeric>

#include "backend/cpu/kernel_test.h"
#include "backend/cpu/workspace.h"

namespace trireme::cpu {
namespace {

// Small heads of odd widths, and more than two chunks of positions.
constexpr DeltaRule odd{{2, 150}, 2, 3, 5, 7}, wide{{1, 70}, 1, 2, 32, 48},
    brief{{3, 9}, 1, 1, 3, 4}, odd_space{{2, 150}, 2, 3, 5, 7, true},
    wide_space{{1, 70}, 1, 2, 32, 48, true};

std::vector<double> random_rates(const DeltaRule& s, std::uint64_t stream) {
  std::vector<double> rates;
  const auto numbers = random_values<float>(s.batch * s.seq * s.rate_cols(), stream);
  const std::int64_t heads = s.heads();
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(numbers.size()); ++i) {
    const std::int64_t part = i % s.rate_cols() / heads;
    // A head's skip is that of the first row everywhere.
    rates.push_back(static_cast<float>(part == 0   ? -std::abs(numbers[i]) / 3
                                       : part == 1 ? 1 / (1 + std::exp(-numbers[i]))
                                                   : numbers[2 * heads + i % heads]));
  }
  return rates;
}

// Documents of 1, 2, 3 ... positions in turn.
std::vector<std::int32_t> random_documents(const DeltaRule& s) {
  std::vector<std::int32_t> first;
  for (std::int64_t sample = 0; sample < s.batch; ++sample) {
    std::int32_t begin = 0, length = 1 + static_cast<std::int32_t>(sample);
    for (std::int32_t i = 0; i < s.seq; ++i) {
      if (i == begin + length) {
        begin = i;
        ++length;
      }
      first.push_back(begin);
    }
  }
  return first;
}

// Writes the direction of a row of `from`, times a factor.
std::vector<double> direction(const double* from, std::int64_t dim, double factor) {
  const double squares = std::inner_product(from, from + dim, from, 1e-6);
  std::vector<double> to(from, from + dim);
  for (double& x : to) x *= factor / std::sqrt(squares);
  return to;
}

std::vector<double> reference(const DeltaRule& s, const std::vector<double>& qkv,
                              const std::vector<double>& rates, const std::int32_t* first_visible) {
  std::vector<double> y(s.batch * s.seq * s.y_cols());
  for (std::int64_t task = 0; task < s.batch * s.heads(); ++task) {
    const std::int64_t sample = task / s.heads(), head = task % s.heads();
    std::vector<double> state(s.key_dim * s.value_dim);
    for (std::int64_t i = 0; i < s.seq; ++i) {
      const std::int64_t row = sample * s.seq + i;
      const double* const group =
          qkv.data() + row * s.qkv_cols() + head / s.per_group * s.group_cols();
      const double* const value = group + 2 * s.key_dim + head % s.per_group * s.value_dim;
      std::vector<double> q(group, group + s.key_dim), k(group + s.key_dim, group + 2 * s.key_dim);
      if (!s.state_space) {
        q = direction(group, s.key_dim, 1 / std::sqrt(s.key_dim));
        k = direction(group + s.key_dim, s.key_dim, 1);
      }
      const double* const rate = rates.data() + row * s.rate_cols() + head;
      const bool begins = first_visible && first_visible[row] == i;
      for (double& x : state) x *= begins ? 0 : std::exp(rate[0]);
      for (std::int64_t c = 0; c < s.value_dim; ++c) {
        double read = 0, out = s.state_space ? rate[2 * s.heads()] * value[c] : 0;
        for (std::int64_t j = 0; j < s.key_dim && !s.state_space; ++j)
          read += k[j] * state[j * s.value_dim + c];
        const double update = rate[s.heads()] * (value[c] - read);
        for (std::int64_t j = 0; j < s.key_dim; ++j) {
          state[j * s.value_dim + c] += k[j] * update;
          out += q[j] * state[j * s.value_dim + c];
        }
        y[row * s.y_cols() + head * s.value_dim + c] = out;
      }
    }
  }
  return y;
}

template <class T>
Guarded<T> run(Isa set, const DeltaShape& s, const Guarded<T>& qkv, const Guarded<Acc<T>>& rates) {
  Guarded<T> y(s.batch * s.seq * s.y_cols());
  kernels<T>(set).delta_rule(queue(), s, y.data(), qkv.data(), rates.data(), nullptr, nullptr);
  return y;
}

template <class T>
class Delta : public testing::Test {};
TYPED_TEST_SUITE(Delta, StorageTypes);

TYPED_TEST(Delta, IsTheRecurrence) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const DeltaRule& rule : {odd, wide, brief, odd_space, wide_space}) {
      const auto qkv = random_values<T>(rule.batch * rule.seq * rule.qkv_cols(), 1);
      const auto rates = random_rates(rule, 2);
      const auto documents = random_documents(rule);
      for (const std::int32_t* first_visible :
           {static_cast<const std::int32_t*>(nullptr), documents.data()}) {
        const DeltaShape s{rule, {.first_visible = first_visible}};
        EXPECT_TRUE(close(run<T>(set, s, Guarded<T>(qkv), Guarded<Acc<T>>(rates)),
                          reference(rule, qkv, rates, first_visible), 64));
      }
    }
  });
}

// Gives the skip of each head the same change in all rows.
void share_skips(const DeltaRule& s, std::vector<double>& drates) {
  const std::int64_t heads = s.heads();
  for (std::int64_t i = 0; s.state_space && i < static_cast<std::int64_t>(drates.size()); ++i)
    if (i % s.rate_cols() >= 2 * heads) drates[i] = drates[2 * heads + i % heads];
}

struct Gradients {
  Guarded<double> qkv, rates;
};

Gradients gradients(Isa set, const DeltaShape& s, const std::vector<double>& dy,
                    const std::vector<double>& qkv, const std::vector<double>& rates) {
  Gradients out{Guarded<double>(qkv.size()), Guarded<double>(rates.size())};
  Guarded<std::byte> workspace(delta_workspace({}, DType::f64, s, true));
  kernels<double>(set).delta_rule_grad(queue(), s,
                                       {.dqkv = out.qkv.data(),
                                        .drates = out.rates.data(),
                                        .dy = Guarded<double>(dy).data(),
                                        .qkv = Guarded<double>(qkv).data(),
                                        .rates = Guarded<double>(rates).data(),
                                        .workspace = workspace.data()});
  EXPECT_TRUE(out.qkv.intact() && out.rates.intact() && workspace.intact());
  return out;
}

// Against differences of the sum of dy * y along random directions, each of all elements together
// and of one position alone.
TEST(DeltaGradient, IsThatOfTheRecurrence) {
  with_sets([](Isa set) {
    for (const DeltaRule& rule : {odd, wide, brief, odd_space, wide_space}) {
      const auto documents = random_documents(rule);
      for (const bool packed : {false, true}) {
        const DeltaShape s{rule, {.first_visible = packed ? documents.data() : nullptr}};
        const auto qkv = random_values<double>(rule.batch * rule.seq * rule.qkv_cols(), 1);
        const auto rates = random_rates(rule, 2);
        const auto dy = random_values<double>(rule.batch * rule.seq * rule.y_cols(), 3);
        const Gradients found = gradients(set, s, dy, qkv, rates);
        const auto value = [&](double step, const std::vector<double>& dqkv,
                               const std::vector<double>& drates) {
          auto moved = qkv, moved_rates = rates;
          for (std::size_t i = 0; i < qkv.size(); ++i) moved[i] += step * dqkv[i];
          for (std::size_t i = 0; i < rates.size(); ++i) moved_rates[i] += step * drates[i];
          const auto y = reference(rule, moved, moved_rates, s.places.first_visible);
          return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
        };
        const std::int64_t rows = rule.batch * rule.seq;
        for (std::int64_t trial = 0; trial < 12; ++trial) {
          auto dqkv = random_values<double>(qkv.size(), 10 + trial);
          auto drates = random_values<double>(rates.size(), 40 + trial);
          const std::int64_t only = trial < 2 ? -1 : trial * 37 % rows;
          for (std::size_t i = 0; i < dqkv.size(); ++i)
            if (only >= 0 && static_cast<std::int64_t>(i) / rule.qkv_cols() != only) dqkv[i] = 0;
          for (std::size_t i = 0; i < drates.size(); ++i)
            if (only >= 0 && static_cast<std::int64_t>(i) / rule.rate_cols() != only) drates[i] = 0;
          share_skips(rule, drates);
          constexpr double step = 1e-6;
          const double expected =
              (value(step, dqkv, drates) - value(-step, dqkv, drates)) / (2 * step);
          const auto made = found.qkv.values(), of_rates = found.rates.values();
          const double along =
              std::inner_product(made.begin(), made.end(), dqkv.begin(), 0.0) +
              std::inner_product(of_rates.begin(), of_rates.end(), drates.begin(), 0.0);
          EXPECT_NEAR(along, expected, 1e-6 * (1 + std::abs(expected))) << "trial " << trial;
        }
      }
    }
  });
}

class DeltaKinds : public testing::TestWithParam<DeltaRule> {};

TEST_P(DeltaKinds, HaveTheSameBitsWithAnyThreads) {
  const DeltaRule rule = GetParam();
  const DeltaShape s{rule, {}};
  const auto qkv = random_values<double>(rule.batch * rule.seq * rule.qkv_cols(), 1);
  const auto rates = random_rates(rule, 2);
  const auto dy = random_values<double>(rule.batch * rule.seq * rule.y_cols(), 3);
  const Gradients first = gradients(isa(), s, dy, qkv, rates);
  const auto y = run<double>(isa(), s, Guarded<double>(qkv), Guarded<double>(rates));
  with_thread_counts([&](int) {
    const Gradients again = gradients(isa(), s, dy, qkv, rates);
    EXPECT_TRUE(again.qkv.same_bits(first.qkv) && again.rates.same_bits(first.rates));
    EXPECT_TRUE(run<double>(isa(), s, Guarded<double>(qkv), Guarded<double>(rates)).same_bits(y));
  });
}

// Positions in pieces, with padding after the real ones of a sequence, continue from the state.
TEST_P(DeltaKinds, ContinueWhereTheyEnded) {
  const DeltaRule rule = GetParam();
  with_sets([&](Isa set) {
    const auto qkv = random_values<double>(rule.batch * rule.seq * rule.qkv_cols(), 1);
    const auto rates = random_rates(rule, 2);
    const auto expected = reference(rule, qkv, rates, nullptr);
    constexpr std::int64_t width = 80;
    DeltaRule piece = rule;
    piece.seq = width;
    std::vector<std::int32_t> lengths(rule.batch, 0);
    Guarded<double> state(rule.batch * rule.heads() * rule.key_dim * rule.value_dim);
    // Pieces of 80, 70, 0 ... and of 1, 2, 3 ... positions.
    for (std::int32_t turn = 0; turn < 17; ++turn) {
      std::vector<std::int32_t> counts;
      for (std::int64_t b = 0; b < rule.batch; ++b) {
        const std::int32_t wanted = b == 0 ? 80 : turn + 1;
        counts.push_back(std::min(wanted, static_cast<std::int32_t>(rule.seq) - lengths[b]));
      }
      std::vector<double> own(piece.batch * width * piece.qkv_cols(), NAN);
      std::vector<double> own_rates(piece.batch * width * piece.rate_cols(), NAN);
      const auto take = [&](std::vector<double>& to, const std::vector<double>& from,
                            std::int64_t columns) {
        for (std::int64_t b = 0; b < rule.batch; ++b)
          std::copy_n(from.begin() + (b * rule.seq + lengths[b]) * columns, counts[b] * columns,
                      to.begin() + b * width * columns);
      };
      take(own, qkv, rule.qkv_cols());
      take(own_rates, rates, rule.rate_cols());
      Guarded<double> y(rule.batch * width * rule.y_cols());
      kernels<double>(set).delta_rule(
          queue(), {piece, {.lengths = lengths.data(), .new_tokens = counts.data()}}, y.data(),
          Guarded<double>(own).data(), Guarded<double>(own_rates).data(), state.data(), nullptr);
      for (std::int64_t b = 0; b < rule.batch; ++b) {
        for (std::int64_t i = 0; i < width * rule.y_cols(); ++i) {
          const bool real = i < counts[b] * rule.y_cols();
          const double want = real ? expected[(b * rule.seq + lengths[b]) * rule.y_cols() + i] : 0;
          ASSERT_NEAR(y[b * width * rule.y_cols() + i], want, 1e-12) << turn << " " << b;
        }
        lengths[b] += counts[b];
      }
    }
    EXPECT_TRUE(state.intact());
    EXPECT_EQ(lengths[1], rule.seq);
  });
}

INSTANTIATE_TEST_SUITE_P(All, DeltaKinds, testing::Values(odd, odd_space), [](const auto& info) {
  return info.param.state_space ? "StateSpace" : "DeltaRule";
});

}  // namespace
}  // namespace trireme::cpu
