// Tests of what computes a GEMM: the library by its own choice or by a record, or our kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "backend/cpu/device.h"
#include "backend/gpu/libraries/either_library.h"
#include "backend/gpu/libraries/fp8_on_host.h"
#include "backend/gpu/libraries/products.h"
#include "backend/gpu/libraries/self_check.h"
#include "base/error.h"

namespace trireme::gpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::shared_ptr<const LinearProduct> own(DType compute, Product product, const LinearShape& shape) {
  return cpu::device().linear(compute, product, shape);
}

// A library that computes as the CPU does, with behavior that tests can change.
struct Habits {
  enum class Fault { none, doubles, gives_nan, fails };
  Fault fault = Fault::none;
  Product faulty_product = Product::weight_grad;
  DType faulty_type = DType::bf16;
  bool without_bias = false;            // it has no algorithm for products with a bias
  bool takes = true;                    // accepts operands where they are
  bool has_bytes = false;               // supports 8-bit GEMMs in fp8
  Fp8Bytes faulty_bytes = {};           // 8-bit GEMMs with wrong results
  const void* does_not_take = nullptr;  // a matrix of the result's form
  std::vector<std::string> calls = {};  // the algorithm of each call
};

class PretendedProduct final : public LibraryProduct {
 public:
  PretendedProduct(Habits& habits, const ProductKey& key)
      : habits_(habits), key_(key), cpus_(own(key.compute, key.product, key.shape())) {}

  std::string first_answer() const override {
    return key_.bias && habits_.without_bias ? "" : "first";
  }
  bool use(const std::string& algorithm) override {
    algorithm_ = algorithm;
    return algorithm == "first" || algorithm == "second";
  }
  bool takes(const void* dst, const void*, const void*) const override {
    return habits_.takes && dst != habits_.does_not_take;
  }
  bool run_onto(Queue&, void*, const void*, const void*, const void*, const void*,
                void*) const override {
    habits_.calls.push_back(algorithm_ + " onto");
    return true;
  }
  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    using Fault = Habits::Fault;
    EXPECT_EQ(key_.bias, bias != nullptr);
    habits_.calls.push_back(algorithm_);
    cpus_->run(queue, dst, a, b, bias, accumulate, workspace);
    if (key_.product != habits_.faulty_product || key_.compute != habits_.faulty_type) return;
    if (habits_.fault == Fault::doubles) cpus_->run(queue, dst, a, b, nullptr, true, workspace);
    if (habits_.fault == Fault::gives_nan) *static_cast<float*>(dst) = NAN;
    if (habits_.fault == Fault::fails) fail("the library failed with status 15");
  }

 private:
  Habits& habits_;
  ProductKey key_;
  std::shared_ptr<const LinearProduct> cpus_;
  std::string algorithm_;
};

// An 8-bit GEMM, with results in fp32 and bf16.
class PretendedBytes final : public LibraryProduct {
 public:
  PretendedBytes(Habits& habits, const ProductKey& key) : habits_(habits), key_(key) {}

  std::string first_answer() const override { return "bytes"; }
  bool use(const std::string& algorithm) override { return algorithm == "bytes"; }
  void take_scales(const float* a, const float* b) const override {
    scales_a_ = a;
    scales_b_ = b;
  }
  void run(Queue&, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void*) const override {
    habits_.calls.push_back("bytes");
    const std::vector<double> sums =
        product_on_host(key_, {static_cast<const std::uint8_t*>(a), scales_a_},
                        {static_cast<const std::uint8_t*>(b), scales_b_});
    if (key_.compute == DType::bf16)
      store(static_cast<bf16*>(dst), sums, static_cast<const bf16*>(bias), accumulate);
    else
      store(static_cast<float*>(dst), sums, static_cast<const float*>(bias), accumulate);
  }

 private:
  template <class C>
  void store(C* dst, const std::vector<double>& sums, const C* bias, bool accumulate) const {
    const bool faulty = key_.product == habits_.faulty_product &&
                        key_.compute == habits_.faulty_type && key_.fp8 == habits_.faulty_bytes;
    const auto columns = static_cast<std::size_t>(fp8_matrix_b(key_).rows);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      double sum = faulty ? 1.01 * sums[i] : sums[i];
      if (bias) sum += static_cast<float>(bias[i % columns]);
      if (accumulate) sum += static_cast<float>(dst[i]);
      dst[i] = C(static_cast<float>(sum));
    }
  }

  Habits& habits_;
  ProductKey key_;
  mutable const float *scales_a_ = nullptr, *scales_b_ = nullptr;
};

class PretendedLibrary final : public ProductLibrary {
 public:
  explicit PretendedLibrary(Habits& habits) : habits_(habits) {}
  std::string name() const override { return "a library 1.0"; }
  std::unique_ptr<LibraryProduct> product(const ProductKey& key) override {
    if (!key.fp8.is_used()) return std::make_unique<PretendedProduct>(habits_, key);
    if (!habits_.has_bytes || key.compute == DType::f16) return nullptr;
    return std::make_unique<PretendedBytes>(habits_, key);
  }

 private:
  Habits& habits_;
};

class OneProducts : public testing::Test {
 protected:
  static constexpr LinearShape shape{4, 8, 16};

  // Runs a GEMM of that shape in fp32.
  void run(const LinearProduct& product, bool bias = false, bool accumulate = false) {
    std::vector<float> x(4 * 16, 1), weight(8 * 16, 1), b(16, 1), result(8 * 16, 0);
    std::vector<std::byte> workspace(1 << 20);
    product.run(cpu::device().queue(), result.data(), x.data(), weight.data(),
                bias ? b.data() : nullptr, accumulate, workspace.data());
  }
  LibraryChoices recorded(const std::string& algorithm) {
    LibraryChoices choices{"a device", "a library 1.0", {}};
    choices.algorithms[{Product::forward, false, DType::f32, 4, 8, 16}] = algorithm;
    return choices;
  }

  Habits habits_;
  Products products_{"a device", own, std::make_unique<PretendedLibrary>(habits_)};
};

TEST_F(OneProducts, TakeTheFirstAnswerAndKeepIt) {
  run(*products_.linear(DType::f32, Product::forward, shape));
  EXPECT_THAT(habits_.calls, ElementsAre("first"));
  const LibraryChoices choices = products_.choices();
  EXPECT_EQ(choices.device, "a device");
  EXPECT_EQ(choices.library, "a library 1.0");
  const std::map<ProductKey, std::string> both = {
      {{Product::forward, false, DType::f32, 4, 8, 16}, "first"},
      {{Product::forward, true, DType::f32, 4, 8, 16}, "first"}};
  EXPECT_EQ(choices.algorithms, both);
}

TEST_F(OneProducts, LeaveWhatTheLibraryCannotToTheOwnKernel) {
  habits_.without_bias = true;
  const auto product = products_.linear(DType::f32, Product::forward, shape);
  run(*product, true);
  EXPECT_THAT(habits_.calls, IsEmpty());
  run(*product);
  EXPECT_THAT(habits_.calls, ElementsAre("first"));
  const ProductKey with_bias{Product::forward, true, DType::f32, 4, 8, 16};
  EXPECT_EQ(products_.choices().algorithms.at(with_bias), own_algorithm);
}

// The two halves of what a linear layer does with an addend: the library adds where it can read it.
TEST_F(OneProducts, AddToAMatrixElsewhereWhereItIsAligned) {
  const auto product = products_.linear(DType::f32, Product::forward, shape);
  std::vector<float> x(4 * 16, 1), weight(8 * 16, 1), addend(4 * 8, 1), result(4 * 8, 0);
  const auto run_onto = [&] {
    return product->run_onto(cpu::device().queue(), result.data(), addend.data(), x.data(),
                             weight.data(), nullptr, nullptr);
  };
  EXPECT_TRUE(run_onto());
  EXPECT_THAT(habits_.calls, ElementsAre("first onto"));
  habits_.does_not_take = addend.data();
  EXPECT_FALSE(run_onto());  // the own kernel, here the CPU's, has no such product
  EXPECT_THAT(habits_.calls, ElementsAre("first onto"));
}

TEST_F(OneProducts, LeaveABiasOnTopOfASumToTheOwnKernel) {
  run(*products_.linear(DType::f32, Product::forward, shape), true, true);
  EXPECT_THAT(habits_.calls, IsEmpty());
}

TEST_F(OneProducts, LeaveOperandsThatLieElsewhereToTheOwnKernel) {
  habits_.takes = false;
  const auto product = products_.linear(DType::f32, Product::forward, shape);
  run(*product);
  run(*product, true);
  EXPECT_THAT(habits_.calls, IsEmpty());
  habits_.takes = true;
  run(*product);
  EXPECT_THAT(habits_.calls, ElementsAre("first"));
}

// Like hipBLASLt and rocBLAS: the second supports what the first lacks; a record tells them apart.
TEST_F(OneProducts, TakeTheSecondLibraryWhereTheFirstHasNoAlgorithm) {
  Habits second;
  habits_.without_bias = true;
  const auto both = [&] {
    return either_library(std::make_unique<PretendedLibrary>(habits_),
                          std::make_unique<PretendedLibrary>(second));
  };
  Products products("a device", own, both());
  const auto product = products.linear(DType::f32, Product::forward, shape);
  run(*product, true);
  EXPECT_THAT(habits_.calls, IsEmpty());
  EXPECT_THAT(second.calls, ElementsAre("first"));
  run(*product);
  EXPECT_THAT(habits_.calls, ElementsAre("first"));
  const LibraryChoices choices = products.choices();
  EXPECT_EQ(choices.library, "a library 1.0, a library 1.0");
  Products again("a device", own, both());
  again.take(choices);
  run(*again.linear(DType::f32, Product::forward, shape), true);
  EXPECT_EQ(second.calls.size(), 2u);
}

TEST_F(OneProducts, AreOfTheOneLibraryThatThereIs) {
  EXPECT_EQ(either_library(nullptr, std::make_unique<PretendedLibrary>(habits_))->name(),
            "a library 1.0");
  EXPECT_EQ(either_library(std::make_unique<PretendedLibrary>(habits_), nullptr)->name(),
            "a library 1.0");
  EXPECT_EQ(either_library(nullptr, nullptr), nullptr);
}

TEST_F(OneProducts, FollowARecordAlsoWhenTheyExist) {
  const auto earlier = products_.linear(DType::f32, Product::forward, shape);
  products_.take(recorded("second"));
  run(*earlier);
  run(*products_.linear(DType::f32, Product::forward, shape));
  EXPECT_THAT(habits_.calls, ElementsAre("second", "second"));
  products_.take(recorded(own_algorithm));
  run(*earlier);
  EXPECT_EQ(habits_.calls.size(), 2u);
}

TEST_F(OneProducts, FollowARecordThatComesFirst) {
  products_.take(recorded("second"));
  run(*products_.linear(DType::f32, Product::forward, shape));
  EXPECT_THAT(habits_.calls, ElementsAre("second"));
}

TEST_F(OneProducts, RefuseARecordThatTheLibraryDoesNotKnow) {
  products_.linear(DType::f32, Product::forward, shape);
  try {
    products_.take(recorded("third"));
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a library 1.0 does not know the recorded algorithm"));
  }
}

TEST_F(OneProducts, AreTheOwnKernelsWithoutALibrary) {
  Products none("a device", own, nullptr);
  EXPECT_THAT(none.check(cpu::device()), IsEmpty());
  run(*none.linear(DType::f32, Product::forward, shape));
  EXPECT_EQ(none.choices().library, "");
  EXPECT_EQ(none.signature(), "own products");
}

class BytesInProducts : public OneProducts {
 protected:
  static constexpr Fp8Bytes whole{Fp8Type::e4m3, Fp8Type::e4m3, Fp8Recipe::tensorwise};
  static constexpr ProductKey key{Product::forward, false, DType::f32, 4, 8, 16, whole};
};

TEST_F(BytesInProducts, AreTheLibrarysWhereItHasThem) {
  EXPECT_FALSE(products_.fp8_linear(DType::f32, Product::forward, shape, whole)->computes(false));
  EXPECT_EQ(products_.choices().algorithms.at(key), own_algorithm);
  EXPECT_EQ(
      Products("a device", own, nullptr).fp8_linear(DType::f32, Product::forward, shape, whole),
      nullptr);

  habits_.has_bytes = true;
  Products products("a device", own, std::make_unique<PretendedLibrary>(habits_));
  const auto product = products.fp8_linear(DType::f32, Product::forward, shape, whole);
  ASSERT_TRUE(product->computes(false) && product->computes(true));
  EXPECT_EQ(products.choices().algorithms.at(key), "bytes");
  const std::vector<std::uint8_t> x(4 * 8, to_fp8(Fp8Type::e4m3, 3)),
      weight(16 * 8, to_fp8(Fp8Type::e4m3, 5));
  const float inverse_x = 2, inverse_weight = 0.5;
  std::vector<float> bias(16, 1), y(4 * 16, 0);
  product->run(cpu::device().queue(), y.data(), {x.data(), &inverse_x},
               {weight.data(), &inverse_weight}, bias.data(), false, nullptr);
  EXPECT_THAT(y, testing::Each(3 * 5 * 8 + 1.f));
}

TEST_F(BytesInProducts, FollowARecord) {
  habits_.has_bytes = true;
  const auto product = products_.fp8_linear(DType::f32, Product::forward, shape, whole);
  LibraryChoices record = recorded("first");
  record.algorithms[key] = own_algorithm;
  products_.take(record);
  EXPECT_FALSE(product->computes(false));
  EXPECT_TRUE(product->computes(true));
  record.algorithms[key] = "bytes";
  products_.take(record);
  EXPECT_TRUE(product->computes(false));
}

using SlowBytesInProducts = BytesInProducts;

TEST_F(SlowBytesInProducts, AreComparedWithTheHostsSums) {
  habits_.has_bytes = true;
  EXPECT_THAT(products_.check(cpu::device()), IsEmpty());
  EXPECT_GT(std::ranges::count(habits_.calls, "bytes"), 0);
  const auto e5m2 = Fp8Type::e5m2, e4m3 = Fp8Type::e4m3;
  for (const auto& [product, type, bytes] : {
           std::tuple{Product::forward, DType::bf16, Fp8Bytes{e4m3, e4m3, Fp8Recipe::blockwise}},
           std::tuple{Product::input_grad, DType::f32, Fp8Bytes{e5m2, e4m3, Fp8Recipe::blockwise}},
           std::tuple{Product::weight_grad, DType::f32,
                      Fp8Bytes{Fp8Type::e4m3_fnuz, Fp8Type::e4m3_fnuz, Fp8Recipe::tensorwise}},
       }) {
    habits_.faulty_product = product;
    habits_.faulty_type = type;
    habits_.faulty_bytes = bytes;
    Products products("a device", own, std::make_unique<PretendedLibrary>(habits_));
    const std::vector<std::string> lines = products.check(cpu::device());
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_THAT(lines[0], HasSubstr(std::string(record_name(product)) + " of bytes in " +
                                    record_name(bytes.a) + " and " + record_name(bytes.b) + " (" +
                                    record_name(bytes.scales) + ") in " +
                                    std::string(name_of(type)) + ": differs from the host's sums"));
    EXPECT_FALSE(products.fp8_linear(type, product, shape, bytes)->computes(false));
    // Other types are unaffected.
    const Fp8Bytes other{e4m3, e4m3, Fp8Recipe::tensorwise};
    EXPECT_TRUE(products.fp8_linear(type, product, shape, other)->computes(false));
  }
}

class SelfCheck : public OneProducts {};

TEST_F(SelfCheck, FindsNothingWhereBothAgree) {
  EXPECT_THAT(products_.check(cpu::device()), IsEmpty());
  EXPECT_THAT(products_.choices().algorithms, IsEmpty());
  EXPECT_EQ(products_.signature(), "a library 1.0");
}

TEST_F(SelfCheck, SwitchesOffWhatIsWrongAndSaysSo) {
  habits_.fault = Habits::Fault::doubles;
  const std::vector<std::string> lines = products_.check(cpu::device());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0],
              testing::MatchesRegex(
                  "a library 1.0 on a device, weight_grad in bf16: differs from the own "
                  "kernel by [0-9.e+-]+ of the largest element, and 1e-05 is allowed; the "
                  "own kernel takes its place"));
  EXPECT_EQ(products_.signature(), "a library 1.0, own weight_grad in bf16");

  habits_.calls.clear();
  run(*products_.linear(DType::f32, Product::weight_grad, shape));  // another class of products
  EXPECT_EQ(habits_.calls.size(), 1u);
  products_.linear(DType::bf16, Product::weight_grad, shape);
  const ProductKey key{Product::weight_grad, false, DType::bf16, 4, 8, 16};
  EXPECT_EQ(products_.choices().algorithms.at(key), own_algorithm);
  // A record does not bring it back either.
  LibraryChoices record = recorded("first");
  record.algorithms[key] = "first";
  products_.take(record);
  EXPECT_EQ(products_.choices().algorithms.at(key), own_algorithm);
}

TEST_F(SelfCheck, FindsEveryClass) {
  habits_.fault = Habits::Fault::doubles;
  for (const Product product : {Product::forward, Product::input_grad, Product::weight_grad}) {
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      habits_.faulty_product = product;
      habits_.faulty_type = type;
      Products products("a device", own, std::make_unique<PretendedLibrary>(habits_));
      ASSERT_EQ(products.check(cpu::device()).size(), 1u);
    }
  }
}

TEST_F(SelfCheck, TakesNaNForWrong) {
  habits_.fault = Habits::Fault::gives_nan;
  EXPECT_THAT(products_.check(cpu::device()), ElementsAre(HasSubstr("weight_grad in bf16")));
}

TEST_F(SelfCheck, SwitchesOffWhatFails) {
  habits_.fault = Habits::Fault::fails;
  EXPECT_THAT(products_.check(cpu::device()),
              ElementsAre(HasSubstr("weight_grad in bf16: the library failed with status 15")));
}

}  // namespace
}  // namespace trireme::gpu
