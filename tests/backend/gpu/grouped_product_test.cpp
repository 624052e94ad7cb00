// Tests of grouped GEMMs: the GPU against the CPU, and against one GEMM per group.
#include "backend/cpu/workspace.h"
#include "backend/gpu/all_maps.h"

namespace trireme {
namespace {

struct GroupedCase {
  GroupedShape shape;
  std::vector<std::int32_t> offsets;

  std::size_t x() const { return static_cast<std::size_t>(shape.rows * shape.in); }
  std::size_t y() const { return static_cast<std::size_t>(shape.rows * shape.out); }
  std::size_t weights() const {
    return static_cast<std::size_t>(shape.groups * shape.in * shape.out);
  }
};

// Even and uneven loads, empty groups, rows of no group; in packs and not; tiles of all sizes.
std::vector<GroupedCase> grouped_cases() {
  std::vector<GroupedCase> cases = {{{40, 24, 16, 4}, {0, 10, 20, 30, 40}},
                                    {{40, 24, 16, 4}, {0, 0, 33, 33, 37}},
                                    {{40, 7, 130, 2}, {0, 0, 0}},
                                    {{150, 17, 9, 2}, {0, 149, 150}},
                                    {{12, 8, 8, 3, 2}, {0, 2, 4, 4, 5, 9, 12}},
                                    {{130, 16, 4100, 1}, {0, 125}},
                                    {{130, 4100, 8, 1}, {0, 125}}};
  GroupedCase many{{300, 65, 66, 70}, {0}};  // more groups than the threads examine at once
  for (std::int32_t g = 0; g < 70; ++g) many.offsets.push_back(g < 20 ? 13 * g : 260 + g / 2);
  cases.push_back(many);
  GroupedCase most{{300, 8, 8, 300}, {0}};
  for (std::int32_t g = 0; g < 300; ++g) most.offsets.push_back(g);
  cases.push_back(most);
  return cases;
}

class Grouped : public OnAllMaps {};
TRIREME_ON_ALL_MAPS(Grouped);

template <class T, class C>
std::vector<C> grouped_on(Device& device, Product product, const GroupedCase& c, bool accumulate) {
  const bool forward = product == Product::forward, sums = product == Product::weight_grad;
  const OnDevice<T> a(device, normal_values<T>(forward ? c.x() : c.y(), 1));
  const OnDevice<T> b(device, normal_values<T>(sums ? c.x() : c.weights(), 2));
  const OnDevice<C> dst(device, normal_values<C>(sums ? c.weights() : forward ? c.y() : c.x(), 3));
  const OnDevice<std::int32_t> offsets(device, c.offsets);
  const OnDevice<char> workspace(
      device, static_cast<std::size_t>(
                  cpu::grouped_workspace(cpu::device().target(), dtype_of<T>, product, c.shape)));
  device.grouped(dtype_of<T>, product, c.shape)
      ->run(device.queue(), dst.get(), a.get(), b.get(), offsets.get(), accumulate,
            workspace.get());
  return dst.values();
}

TEST_P(Grouped, ProductsAreTheCpus) {
  for (const GroupedCase& c : grouped_cases()) {
    SCOPED_TRACE(testing::Message() << c.shape.groups << " groups of " << c.shape.rows << " rows, "
                                    << c.shape.in << " to " << c.shape.out);
    for_storage_types([&]<class T>(T) {
      for (const Product product : {Product::forward, Product::input_grad})
        expect_close(on_both([&](Device& d) { return grouped_on<T, T>(d, product, c, false); }),
                     tolerance_of<T>());
      for (const bool accumulate : {false, true}) {
        if (c.shape.blocks > 1 || (accumulate && c.shape.groups > 4)) continue;
        expect_close(on_both([&](Device& d) {
                       return grouped_on<T, float>(d, Product::weight_grad, c, accumulate);
                     }),
                     tolerance_of<float>());
      }
    });
  }
}

// Weight gradients of each block of each group, added up as the rest of the program does.
template <class T>
std::vector<float> grouped_each_on(Device& device, const GroupedCase& c) {
  const OnDevice<T> dy(device, normal_values<T>(c.y(), 1)), x(device, normal_values<T>(c.x(), 2));
  const OnDevice<std::int32_t> offsets(device, c.offsets);
  const std::int64_t each = c.shape.in * c.shape.out;
  const OnDevice<float> made(device, static_cast<std::size_t>(each));
  const OnDevice<float> sums(device, c.weights());
  const OnDevice<char> workspace(
      device, static_cast<std::size_t>(cpu::grouped_workspace(cpu::device().target(), dtype_of<T>,
                                                              Product::weight_grad, c.shape)));
  device.grouped(dtype_of<T>, Product::weight_grad, c.shape)
      ->run_each(device.queue(), made.get(), dy.get(), x.get(), offsets.get(), workspace.get(),
                 [&](std::int64_t group) {
                   device.state_kernels().add(device.queue(), DType::f32, sums.get() + group * each,
                                              made.get(), each);
                 });
  return sums.values();
}

TEST_P(Grouped, GradientsOfEachBlockAreTheCpus) {
  for_storage_types([&]<class T>(T) {
    for (const std::vector<std::int32_t>& offsets :
         {std::vector<std::int32_t>{0, 2, 4, 4, 5, 9, 12}, {0, 0, 0, 0, 7, 7, 7}}) {
      const GroupedCase c{{12, 24, 40, 3, 2}, offsets};
      expect_close(on_both([&](Device& d) { return grouped_each_on<T>(d, c); }),
                   tolerance_of<float>());
    }
  });
}

// A row has the bits of a GEMM of its group alone, however many rows the others have.
TEST_P(Grouped, RowsHaveTheBitsOfTheirGroupAlone) {
  const GroupedCase c{{50, 40, 72, 3}, {0, 9, 30, 50}};
  for_storage_types([&]<class T>(T) {
    for (const Product product : {Product::forward, Product::input_grad}) {
      const std::vector<T> all = grouped_on<T, T>(gpu_, product, c, false);
      const bool forward = product == Product::forward;
      const std::size_t from = forward ? 40 : 72, to = forward ? 72 : 40;
      const auto a = normal_values<T>(forward ? c.x() : c.y(), 1);
      const auto b = normal_values<T>(c.weights(), 2);
      for (std::size_t g = 0; g < 3; ++g) {
        const auto first = static_cast<std::size_t>(c.offsets[g]);
        const std::size_t count = static_cast<std::size_t>(c.offsets[g + 1]) - first;
        const auto cut = [](const std::vector<T>& v, std::size_t begin, std::size_t size) {
          const auto at = v.begin() + static_cast<std::ptrdiff_t>(begin);
          return std::vector<T>(at, at + static_cast<std::ptrdiff_t>(size));
        };
        const OnDevice<T> rows(gpu_, cut(a, first * from, count * from));
        const OnDevice<T> weight(gpu_, cut(b, g * 40 * 72, 40 * 72));
        const OnDevice<T> dst(gpu_, count * to);
        gpu_.linear(dtype_of<T>, product, {static_cast<std::int64_t>(count), 40, 72})
            ->run(gpu_.queue(), dst.get(), rows.get(), weight.get(), nullptr, false, nullptr);
        EXPECT_TRUE(same_bits(dst.values(), cut(all, first * to, count * to)));
      }
    }
  });
}

}  // namespace
}  // namespace trireme
