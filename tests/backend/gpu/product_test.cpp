// Tests of GEMMs on the GPU against the CPU.
#include <algorithm>
#include <array>

#include "backend/cpu/workspace.h"
#include "backend/gpu/all_maps.h"
#include "backend/gpu_workspace.h"

namespace trireme {
namespace {

class Products : public OnAllMaps {};
TRIREME_ON_ALL_MAPS(Products);

struct Case {
  Product product;
  LinearShape shape;
  bool bias = false, accumulate = false;
  std::size_t offset = 0;  // of operands from a multiple of 16 bytes, in elements

  std::size_t m() const { return product == Product::weight_grad ? out() : rows(); }
  std::size_t n() const { return product == Product::forward ? out() : in(); }
  std::size_t a() const { return product == Product::forward ? rows() * in() : rows() * out(); }
  std::size_t b() const { return product == Product::weight_grad ? rows() * in() : out() * in(); }
  std::size_t rows() const { return static_cast<std::size_t>(shape.rows); }
  std::size_t in() const { return static_cast<std::size_t>(shape.in); }
  std::size_t out() const { return static_cast<std::size_t>(shape.out); }
};

// All inputs of the GEMM. C is the type of the result.
template <class T, class C>
struct Inputs {
  std::vector<T> a, b, bias;
  std::vector<C> before;

  explicit Inputs(const Case& c)
      : a(normal_values<T>(c.a() + c.offset, 1)),
        b(normal_values<T>(c.b() + c.offset, 2)),
        bias(normal_values<T>(c.out(), 3)),
        before(normal_values<C>(c.m() * c.n(), 4)) {}
};

std::int64_t workspace_of(const Device& device, DType compute, const Case& c) {
  const Target& target = device.target();
  return target.device == DeviceKind::cpu
             ? cpu::linear_workspace(target, compute, c.product, c.shape)
             : gpu::linear_workspace(target.device, compute, c.product, c.shape);
}

template <class T, class C>
std::vector<C> run(Device& device, const Case& c, const Inputs<T, C>& inputs,
                   const LinearProduct& product, std::int64_t workspace_bytes) {
  const OnDevice<T> a(device, inputs.a), b(device, inputs.b), bias(device, inputs.bias);
  const OnDevice<C> result(device, inputs.before);
  const OnDevice<char> workspace(device, static_cast<std::size_t>(workspace_bytes));
  product.run(device.queue(), result.get(), a.get() + c.offset, b.get() + c.offset,
              c.bias ? bias.get() : nullptr, c.accumulate, workspace.get());
  return result.values();
}
template <class T, class C>
std::vector<C> run(Device& device, const Case& c, const Inputs<T, C>& inputs) {
  return run(device, c, inputs, *device.linear(dtype_of<T>, c.product, c.shape),
             workspace_of(device, dtype_of<T>, c));
}

// Calls body(operand type, result type) for every storage type.
template <class Body>
void for_types(Product product, const Body& body) {
  if (product == Product::weight_grad) {
    body(float{}, float{}), body(bf16{}, float{}), body(f16{}, float{});
  } else {
    body(float{}, float{}), body(bf16{}, bf16{}), body(f16{}, f16{});
  }
}

constexpr std::array all_products{Product::forward, Product::input_grad, Product::weight_grad};

class OneProduct : public Products {
 protected:
  void check(const Case& c) {
    SCOPED_TRACE(testing::Message()
                 << "product " << static_cast<int>(c.product) << " rows " << c.shape.rows << " in "
                 << c.shape.in << " out " << c.shape.out << " bias " << c.bias << " accumulate "
                 << c.accumulate << " offset " << c.offset);
    for_types(c.product, [&]<class T, class C>(T, C) {
      const Inputs<T, C> inputs(c);
      expect_close(on_both([&](Device& device) { return run(device, c, inputs); }),
                   tolerance_of<C>());
    });
  }
  void check_all(const LinearShape& shape) {
    for (const Product product : all_products)
      for (const bool accumulate : {false, true})
        check({product, shape, product == Product::forward && !accumulate, accumulate});
  }
};
TRIREME_ON_ALL_MAPS(OneProduct);

TEST_P(OneProduct, OfWholeTilesEqualsTheCpus) {
  check_all({64, 64, 128});
  check_all({16, 32, 64});
}

TEST_P(OneProduct, OfOddSizesEqualsTheCpus) {
  for (const LinearShape& shape : std::vector<LinearShape>{{1, 1, 1},
                                                           {3, 17, 1},
                                                           {17, 65, 3},
                                                           {65, 3, 130},
                                                           {2, 130, 33},
                                                           {31, 72, 24},
                                                           {80, 40, 8}})
    check_all(shape);
}

TEST_P(OneProduct, ManyTilesAndLongSumsEqualTheCpus) {
  check({Product::forward, {300, 16, 2900}});
  check({Product::input_grad, {1100, 1030, 9}});
  check({Product::weight_grad, {20, 1030, 1024}, false, true});
  check({Product::weight_grad, {1000, 72, 33}});
}

// An addend elsewhere gives the bits of one in the result's place, and is rounded with the sum.
TEST_P(OneProduct, IsAddedToWhatLiesElsewhere) {
  for (const LinearShape& shape : std::vector<LinearShape>{{64, 64, 128}, {17, 65, 3}}) {
    for_types(Product::forward, [&]<class T, class C>(T, C) {
      for (const bool has_bias : {false, true}) {
        const Case c{Product::forward, shape, has_bias, true};
        const Inputs<T, C> inputs(c);
        const auto product = gpu_.linear(dtype_of<T>, c.product, c.shape);
        const std::int64_t bytes = workspace_of(gpu_, dtype_of<T>, c);
        const OnDevice<T> a(gpu_, inputs.a), b(gpu_, inputs.b), bias(gpu_, inputs.bias);
        const OnDevice<C> addend(gpu_, inputs.before), result(gpu_, c.m() * c.n());
        const OnDevice<char> workspace(gpu_, static_cast<std::size_t>(bytes));
        ASSERT_TRUE(product->run_onto(gpu_.queue(), result.get(), addend.get(), a.get(), b.get(),
                                      has_bias ? bias.get() : nullptr, workspace.get()));
        EXPECT_EQ(as_floats(result.values()), as_floats(run(gpu_, c, inputs, *product, bytes)));
        EXPECT_EQ(as_floats(addend.values()), as_floats(inputs.before));
      }
    });
  }
}

TEST_P(OneProduct, ReadsOperandsThatLieAnywhere) {
  for (const Product product : all_products) check({product, {40, 72, 48}, false, false, 1});
}

// A row's bits must be equal alone and among others: in generation and in a whole batch. A library
// chooses other tiles for other numbers of rows.
TEST_P(Products, OfARowDoesNotDependOnTheOtherRows) {
  if (gpu_.signature().find("own products") == std::string::npos)
    GTEST_SKIP() << "the products are a library's: " << gpu_.signature();
  constexpr std::int64_t most_rows = 4100, steps = 40, columns = 130;
  for_types(Product::forward, [&]<class T, class C>(T, C) {
    for (const Product product : {Product::forward, Product::input_grad}) {
      const auto shape = [&](std::int64_t rows) {
        return product == Product::forward ? LinearShape{rows, steps, columns}
                                           : LinearShape{rows, columns, steps};
      };
      const Inputs<T, C> inputs({product, shape(most_rows)});
      const auto first_row_of = [&](std::int64_t rows) {
        std::vector<C> result = run(gpu_, {product, shape(rows)}, inputs);
        result.resize(columns);
        return result;
      };
      const auto one = first_row_of(1);
      for (const std::int64_t rows : {17L, most_rows})
        EXPECT_TRUE(same_bits(one, first_row_of(rows)));
    }
  });
}

// Sums over leaves (parallel.exact_leaves) are not rounded to the type of the operands, and ranks
// read the same leaf at different addresses.
TEST_P(Products, OfALeafAreSumsThatDoNotDependOnAddresses) {
  for_types(Product::forward, [&]<class T, class C>(T, C) {
    for (const Product product : {Product::forward, Product::input_grad}) {
      const auto sums_on = [&](Device& device, std::size_t offset) {
        const Case c{product, {33, 40, 24}, false, false, offset};
        Inputs<T, float> inputs(c);
        for (auto* operand : {&inputs.a, &inputs.b})
          std::rotate(operand->rbegin(), operand->rbegin() + static_cast<std::ptrdiff_t>(offset),
                      operand->rend());
        const bool on_cpu = device.target().device == DeviceKind::cpu;
        return run(
            device, c, inputs, *device.leaf_linear(dtype_of<T>, product, c.shape, true),
            on_cpu ? cpu::sums_workspace(device.target(), dtype_of<T>, product, c.shape) : 0);
      };
      const auto both = on_both([&](Device& device) { return sums_on(device, 0); });
      expect_close(both, tolerance_of<float>());
      EXPECT_TRUE(same_bits(sums_on(gpu_, 1), both.second));
    }
  });
}

TEST_P(Products, OfEqualInputsAreEqualBits) {
  for_types(Product::weight_grad, [&]<class T, class C>(T, C) {
    const Case c{Product::weight_grad, {70, 40, 90}};
    const Inputs<T, C> inputs(c);
    const auto first = run(gpu_, c, inputs);
    for (const std::uint64_t seed : {1, 2}) {
      set_thread_order(seed);
      const auto again = run(gpu_, c, inputs);
      set_thread_order(0);
      EXPECT_TRUE(same_bits(first, again));
    }
  });
}

}  // namespace
}  // namespace trireme
