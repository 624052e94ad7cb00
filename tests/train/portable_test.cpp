// Tests of portable numerics: the same bits with any instruction set, on any number of threads, and
// on every layout. Also run with emulated AMX (tests/CMakeLists.txt).
#include "base/portable_math.h"

#include <gmock/gmock.h>

#include "backend/cpu/gemm.h"
#include "base/hash.h"
#include "local_ranks.h"
#include "train/engine/weights_hash.h"

namespace trireme {
namespace {

// Returns the hash of all parameters after some steps.
std::string hash_of(const Config& config, int steps, int ranks = 1) {
  const math::Use numerics(config.parallel.numerics == Numerics::portable);
  std::string hash;
  run_local_ranks(ranks, {.timeout_s = 60}, [&](Transport& transport) {
    const int rank = transport.place().rank;
    const auto engine = start(config, transport);
    for (int s = 0; s < steps; ++s) step(*engine, rank, config, s);
    const std::uint64_t own = weights_hash(*engine, &transport);
    if (rank == 0) hash = hash_to_text(own);
  });
  return hash;
}

Config portable(const std::string& precision, const std::string& family) {
  Config config = config_of(precision, 2, family);
  config.parallel.numerics = Numerics::portable;
  return config;
}

// Recorded on a processor with AVX2. Every processor must compute them.
TEST(Portable, HashesAreTheSameEverywhere) {
  EXPECT_EQ(hash_of(portable("bf16", "gpt"), 300), "e7b4629aaae5f7be");
  EXPECT_EQ(hash_of(portable("bf16", "experts"), 300), "a3f80dfd548b6303");
  EXPECT_EQ(hash_of(portable("fp32", "latent"), 300), "b0c5970f74b0dec6");
}

TEST(Portable, HashesDoNotDependOnTheLayout) {
  const std::string one = hash_of(portable("bf16", "gpt"), 20);
  Config config = portable("bf16", "gpt");
  config.parallel.zero = 2;
  EXPECT_EQ(hash_of(config, 20, 2), one);
  config.parallel.zero = 0;
  config.parallel.pp = 2;
  EXPECT_EQ(hash_of(config, 20, 2), one);
}

// Exact numerics use the processor's best instructions.
TEST(Portable, HashesAreNotThoseOfOtherInstructions) {
  if (cpu::isa() == cpu::Isa::avx2) GTEST_SKIP() << "this run has no other instructions";
  Config config = portable("bf16", "gpt");
  const std::string own = hash_of(config, 20);
  config.parallel.numerics = Numerics::exact;
  EXPECT_NE(hash_of(config, 20), own);
}

// Shapes whose order in oneDNN depends on the processor: a tile of one row or column.
TEST(Portable, ProductsOfAllShapesAreOurOwn) {
  const math::Use numerics(true);
  EXPECT_EQ(cpu::isa(), cpu::Isa::avx2);
  for (const auto& [rows, in, out] :
       {std::array{1, 40, 30}, {40, 40, 1}, {257, 300, 1}, {65, 7, 33}, {300, 1, 97}}) {
    const cpu::Linear<float> product(Product::input_grad, {rows, in, out});
    std::vector<float> dy(rows * out), weight(out * in), dx(rows * in);
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i % 7) - 3;
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 5) - 2;
    std::vector<std::byte> workspace(static_cast<std::size_t>(product.workspace_bytes()));
    product.run(dx.data(), dy.data(), weight.data(), nullptr, false, workspace.data());
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < in; ++i) {
        float sum = 0;  // whole numbers: exact
        for (int o = 0; o < out; ++o) sum += dy[r * out + o] * weight[o * in + i];
        ASSERT_EQ(dx[r * in + i], sum) << rows << " " << in << " " << out;
      }
    }
  }
}

TEST(PortableMath, IsPrecise) {
  const auto error = [](double value, long double expected) {
    return std::abs((value - expected) / expected) / 0x1p-52L;
  };
  for (int i = 1; i < 20000; ++i) {
    const double x = 0.034 * i, y = x / 50;
    ASSERT_LT(error(math::own_exp(x - 340), std::exp(static_cast<long double>(x - 340))), 2) << x;
    ASSERT_LT(error(math::own_log(x), std::log(static_cast<long double>(x))), 2) << x;
    ASSERT_LT(std::abs(math::own_sin(x) - std::sin(static_cast<long double>(x))), 3e-16L) << x;
    ASSERT_LT(std::abs(math::own_cos(x) - std::cos(static_cast<long double>(x))), 3e-16L) << x;
    ASSERT_LT(error(math::own_pow(0.999, i), std::pow(0.999L, i)), 500) << i;
    ASSERT_LT(error(math::own_pow(y, 0.25), std::pow(static_cast<long double>(y), 0.25L)), 6) << y;
  }
  EXPECT_EQ(math::own_exp(0), 1);
  EXPECT_EQ(math::own_log(1), 0);
  EXPECT_EQ(math::own_exp(-1000), 0);
  EXPECT_EQ(math::own_pow(0, 0.5), 0);
  EXPECT_EQ(math::own_cos(0), 1);
}

TEST(PortableMath, HoldsForAWholeProcess) {
  const math::Use own(true);
  EXPECT_TRUE(math::is_portable());
  const math::Use again(true);
  EXPECT_THROW(math::Use(false), Error);
  EXPECT_TRUE(math::is_portable());
}

}  // namespace
}  // namespace trireme
