// Tests of the parts that each rank has of a parameter: together they cover every element once.
#include "parallel/layers.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// Returns the parameters that `layer(graph, tensor)` adds on one rank.
template <class Layer>
std::vector<ParameterSpec> parameters_of(const TensorParallel& tp, Layer&& layer) {
  Graph g(DType::f32);
  layer(g, tp);
  return g.parameters();
}

// Counts the ranks that have each element of a whole parameter.
template <class Layer>
std::vector<int> owners(int ranks, std::size_t parameter, Layer&& layer) {
  std::vector<int> counts;
  for (int rank = 0; rank < ranks; ++rank) {
    const ParameterSpec spec = parameters_of({ranks, rank}, layer).at(parameter);
    EXPECT_EQ(spec.split, ranks > 1);
    counts.resize(spec.saved_shape.count());
    const std::int64_t columns = spec.shape.rank() == 2 ? spec.shape[1] : 1;
    const std::int64_t whole_columns = spec.shape.rank() == 2 ? spec.saved_shape[1] : 1;
    std::vector<RowPiece> pieces = spec.pieces;
    if (pieces.empty()) pieces = {{0, 0, spec.saved_shape[0]}};
    std::int64_t local_row = 0;
    for (const RowPiece& piece : pieces) {
      EXPECT_GE(piece.local_row, local_row);
      local_row = piece.local_row + piece.rows;
      for (std::int64_t r = 0; r < piece.rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          ++counts.at((piece.row + r) * whole_columns + spec.first_column + c);
        }
      }
    }
    EXPECT_LE(local_row, spec.shape[0]);
  }
  return counts;
}

template <class Layer>
void expect_each_once(Layer&& layer, std::size_t parameter) {
  for (const int ranks : {1, 2, 3, 6}) {
    for (const int count : owners(ranks, parameter, layer)) ASSERT_EQ(count, 1) << ranks;
  }
}

void column(Graph& g, const TensorParallel& tp) {
  ColumnLinear{"qkv", 4, 12, true, 0.02}(g, tp, g.segment_input({6, 4}));
}
void gated(Graph& g, const TensorParallel& tp) {
  ColumnLinear{"up", 4, 24, true, 0.02, 2}(g, tp, g.segment_input({6, 4}));
}
void row(Graph& g, const TensorParallel& tp) {
  RowLinear{"out", 12, 4, true, 0.02}(g, tp, g.segment_input({6, 12 / tp.size}));
}
void words(Graph& g, const TensorParallel& tp) {
  VocabTable{"words", 13, 4, 5, 0.02}.parameter(g, tp);
}

TEST(TensorLayers, HoldEveryElementOnce) {
  for (const std::size_t parameter : {0, 1}) {  // weight and bias
    expect_each_once(column, parameter);
    expect_each_once(gated, parameter);
  }
  expect_each_once(row, 0);
  expect_each_once(words, 0);
}

TEST(TensorLayers, CutGateAndUpEachByItself) {
  const std::vector<RowPiece> pieces = parameters_of({3, 1}, gated)[0].pieces;
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].row, 4);
  EXPECT_EQ(pieces[1].row, 12 + 4);
  EXPECT_EQ(pieces[1].local_row, 4);
}

TEST(TensorLayers, KeepARowLinearsBiasWhole) {
  const ParameterSpec bias = parameters_of({3, 1}, row)[1];
  EXPECT_FALSE(bias.split);
  EXPECT_FALSE(bias.partial_gradient);
  EXPECT_EQ(bias.shape, (Shape{4}));
}

TEST(TensorLayers, AreThePlainLayersWithOneRank) {
  Graph g(DType::f32);
  const ValueId x = ColumnLinear{"in", 4, 12, true, 0.02}(g, {}, g.segment_input({6, 4}));
  RowLinear{"out", 12, 4, true, 0.02}(g, {}, x);
  ASSERT_EQ(g.forward.size(), 2u);
  for (const Node& node : g.forward) EXPECT_EQ(node.op, OpKind::linear);
  for (const ParameterSpec& spec : g.parameters()) {
    EXPECT_FALSE(spec.split);
    EXPECT_TRUE(spec.pieces.empty());
  }
}

TEST(VocabTable, PadsToTheMultipleOnEveryRank) {
  const VocabTable table{"words", 50257, 128, 8, 0.02};
  EXPECT_EQ(table.padded({}), 50304);
  EXPECT_EQ(table.padded({8, 0}), 51200);
  EXPECT_EQ(table.first_id({8, 7}), 7 * 6400);
  EXPECT_EQ(table.local_ids({8, 7}), 50257 - 7 * 6400);
  EXPECT_EQ(table.local_ids({8, 0}), 6400);
}

TEST(VocabTable, LeavesRanksBehindTheLastWordEmpty) {
  const VocabTable table{"words", 13, 8, 4, 0.02};
  EXPECT_EQ(table.padded({4, 0}), 32);
  EXPECT_EQ(table.local_ids({4, 1}), 5);
  EXPECT_EQ(table.local_ids({4, 2}), 0);
  EXPECT_EQ(table.local_ids({4, 3}), 0);
  EXPECT_EQ(table.first_id({4, 3}), 13);
}

TEST(TensorParallel, DealsRowsOnlyUnderSequenceParallelism) {
  EXPECT_EQ((TensorParallel{4, 3, false}.local_rows(12)), 12);
  EXPECT_EQ((TensorParallel{4, 3, false}.first_row(12)), 0);
  EXPECT_EQ((TensorParallel{4, 3, true}.local_rows(12)), 3);
  EXPECT_EQ((TensorParallel{4, 3, true}.first_row(12)), 9);
  EXPECT_EQ((TensorParallel{1, 0, true}.local_rows(12)), 12);
}

}  // namespace
}  // namespace trireme
