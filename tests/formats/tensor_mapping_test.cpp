// Tests of tensors assembled from links, against plain loops, for all combinations of storage on
// the two sides.
#include "tensors/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "base/error.h"

namespace trireme {
namespace {

using Values = std::vector<float>;

// A tensor source in memory.
class Memory : public TensorSource {
 public:
  std::map<std::string, std::pair<Shape, Values>> tensors;

  DType check(const std::string& name, const Shape& shape) const override {
    if (!tensors.contains(name) || !(tensors.at(name).first == shape)) fail_input("no {}", name);
    return DType::f32;
  }
  void read(const std::string& name, const Rectangle& part, std::byte* dst) override {
    const auto& [shape, values] = tensors.at(name);
    const std::int64_t width = shape.rank() < 2 ? 1 : shape.back();
    for (std::int64_t i = 0; i < part.rows; ++i) {
      for (std::int64_t j = 0; j < part.columns; ++j) {
        std::memcpy(dst + (i * part.columns + j) * 4,
                    &values.at(static_cast<std::size_t>((part.row + i) * width + part.column + j)),
                    4);
      }
    }
  }
};

// Returns element (row, column) of a tensor viewed as a matrix.
float element(const NamedTensor& tensor, const Values& values, std::int64_t row,
              std::int64_t column) {
  const std::int64_t at =
      tensor.transposed ? column * tensor.rows() + row : row * tensor.columns() + column;
  return values.at(static_cast<std::size_t>(at));
}

// Two of our tensors made of three of theirs, in a different order; each tensor is stored as is or
// transposed, depending on its bit of `stored`.
struct Fixture {
  static constexpr std::int64_t width = 37;
  TensorMapping mapping;
  Memory theirs;

  explicit Fixture(int stored) {
    const auto tensor = [&](const char* name, std::int64_t rows, int bit) {
      const bool transposed = stored >> bit & 1;
      return NamedTensor{name, transposed ? Shape{width, rows} : Shape{rows, width}, transposed};
    };
    const std::size_t a = mapping.add_ours(tensor("a", 50, 0));
    const std::size_t b = mapping.add_ours(tensor("b", 40, 1));
    const std::size_t x = mapping.add_theirs(tensor("x", 45, 2));
    const std::size_t y = mapping.add_theirs(tensor("y", 35, 3));
    const std::size_t z = mapping.add_theirs(tensor("z", 10, 4));
    mapping.link(a, 0, x, 5, 20);
    mapping.link(a, 20, y, 0, 10);
    mapping.link(a, 30, x, 25, 20);
    mapping.link(b, 0, z, 0, 10);
    mapping.link(b, 10, x, 0, 5);
    mapping.link(b, 15, y, 10, 25);
    float start = 0;
    for (const NamedTensor& tensor : mapping.theirs) {
      Values values(static_cast<std::size_t>(tensor.shape.count()));
      std::iota(values.begin(), values.end(), start += 10000);
      theirs.tensors[tensor.name] = {tensor.shape, values};
    }
  }
};

Values whole(const TensorAssembler& assembler, std::size_t target) {
  Values values(static_cast<std::size_t>(assembler.targets()[target].shape.count()));
  assembler.produce(target, DType::f32, 0, static_cast<std::int64_t>(values.size()),
                    reinterpret_cast<std::byte*>(values.data()));
  return values;
}

TEST(TensorAssembler, PutsEveryRowInItsPlace) {
  for (int stored = 0; stored < 32; ++stored) {
    Fixture f(stored);
    check_mapping(f.mapping);
    const TensorAssembler assembler(f.mapping, Direction::to_ours, f.theirs);
    const std::vector<Values> ours{whole(assembler, 0), whole(assembler, 1)};
    for (const RowLink& link : f.mapping.links) {
      const NamedTensor& to = f.mapping.ours[link.ours];
      const NamedTensor& from = f.mapping.theirs[link.theirs];
      for (std::int64_t i = 0; i < link.rows; ++i) {
        for (std::int64_t j = 0; j < Fixture::width; ++j) {
          ASSERT_EQ(element(to, ours[link.ours], link.ours_row + i, j),
                    element(from, f.theirs.tensors.at(from.name).second, link.theirs_row + i, j))
              << to.name << " from " << from.name << ", stored " << stored;
        }
      }
    }
    // The reverse direction.
    Memory mine;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      mine.tensors[f.mapping.ours[i].name] = {f.mapping.ours[i].shape, ours[i]};
    }
    const TensorAssembler back(f.mapping, Direction::to_theirs, mine);
    for (std::size_t i = 0; i < f.mapping.theirs.size(); ++i) {
      EXPECT_EQ(whole(back, i), f.theirs.tensors.at(f.mapping.theirs[i].name).second);
    }
  }
}

TEST(TensorAssembler, ProducesAnyRange) {
  for (int stored = 0; stored < 32; ++stored) {
    Fixture f(stored);
    const TensorAssembler assembler(f.mapping, Direction::to_ours, f.theirs);
    const Values all = whole(assembler, 0);
    for (const auto& [begin, end] : {std::pair{0, 1}, {36, 38}, {700, 1200}, {1849, 1850}}) {
      Values part(static_cast<std::size_t>(end - begin));
      assembler.produce(0, DType::f32, begin, end, reinterpret_cast<std::byte*>(part.data()));
      EXPECT_EQ(part, Values(all.begin() + begin, all.begin() + end));
    }
  }
}

TEST(TensorAssembler, ConvertsWhenAskedForAnotherType) {
  Fixture f(0);
  const TensorAssembler assembler(f.mapping, Direction::to_ours, f.theirs);
  const float first = whole(assembler, 0)[3];
  bf16 narrow;
  assembler.produce(0, DType::bf16, 3, 4, reinterpret_cast<std::byte*>(&narrow));
  EXPECT_EQ(narrow.bits, bf16(first).bits);
}

TEST(TensorAssembler, MissingSourcesAreRefused) {
  Fixture f(0);
  f.theirs.tensors.erase("y");
  EXPECT_THROW(TensorAssembler(f.mapping, Direction::to_ours, f.theirs), Error);
}

// The other side has a tensor that ours lacks.
TEST(TensorAssembler, ZerosNeedNoSource) {
  TensorMapping mapping;
  Memory ours;
  ours.tensors["a"] = {{2, 3}, {1, 2, 3, 4, 5, 6}};
  mapping.add({"a", {2, 3}}, {"x", {2, 3}});
  const std::size_t zeros =
      mapping.add_theirs({.name = "none", .shape = {4, 3}, .transposed = false, .zeros = true});
  check_mapping(mapping);
  const TensorAssembler assembler(mapping, Direction::to_theirs, ours);
  Values values(12, 7);
  assembler.produce(zeros, DType::f32, 0, 12, reinterpret_cast<std::byte*>(values.data()));
  EXPECT_EQ(values, Values(12, 0));
}

// Two matrices of [3, 4], stored transposed, whose rows alternate between two parts; ours has all
// rows of one part before the other. Tests both directions, and pieces.
TEST(TensorAssembler, RowsOfSeveralMatricesTakeTurns) {
  TensorMapping mapping;
  mapping.add({"a", {8, 3}}, {"x", {2, 3, 4}, true, false, 2, 2});
  check_mapping(mapping);
  Memory theirs, ours;
  Values stored(24), expected;
  std::iota(stored.begin(), stored.end(), 0.f);
  theirs.tensors["x"] = {{2, 3, 4}, stored};
  for (const int row : {0, 2, 1, 3, 12, 14, 13, 15})
    for (int column = 0; column < 3; ++column)
      expected.push_back(static_cast<float>(row + 4 * column));
  const TensorAssembler assembler(mapping, Direction::to_ours, theirs);
  EXPECT_EQ(whole(assembler, 0), expected);
  ours.tensors["a"] = {{8, 3}, expected};
  const TensorAssembler back(mapping, Direction::to_theirs, ours);
  for (const auto& [to, wanted] : {std::pair{&assembler, &expected}, {&back, &stored}}) {
    for (std::int64_t begin = 0; begin < 24; begin += 5) {
      const std::int64_t end = std::min<std::int64_t>(24, begin + 5);
      Values part(static_cast<std::size_t>(end - begin));
      to->produce(0, DType::f32, begin, end, reinterpret_cast<std::byte*>(part.data()));
      EXPECT_EQ(part, Values(wanted->begin() + begin, wanted->begin() + end)) << begin;
    }
  }
}

TEST(TensorMapping, TablesWithGapsAreMistakes) {
  Fixture f(0);
  f.mapping.links.pop_back();
  EXPECT_THROW(check_mapping(f.mapping), Error);
}

}  // namespace
}  // namespace trireme
