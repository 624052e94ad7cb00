// RMSNorm of queries and keys, of each head and of all heads together, and its gradient.
#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

// Calls body(column, index, is_key) for each head of queries and keys in a row.
template <class Body>
void for_normed_heads(const HeadNormShape& s, const Body& body) {
  std::int64_t index = 0;
  for (std::int64_t g = 0; g < s.groups; ++g)
    for (std::int64_t h = 0; h <= s.queries_per_group; ++h)
      body((g * (s.queries_per_group + 2) + h) * s.head_dim, index++, h == s.queries_per_group);
}

struct Forward {
  std::vector<double> y, rstd;
};

// What a normalized element is multiplied by.
double factor(const HeadNormShape& s, double weight) {
  return s.zero_centered ? 1 + weight : weight;
}

// One norm over all heads of queries and one over those of keys, element by element.
Forward reference_of_all_heads(const HeadNormShape& s, const std::vector<double>& x,
                               const std::vector<double>& query_weight,
                               const std::vector<double>& key_weight) {
  Forward out{x, {}};
  for (std::int64_t r = 0; r < s.rows; ++r) {
    std::vector<double*> elements[2];
    for_normed_heads(s, [&](std::int64_t column, std::int64_t, bool is_key) {
      for (std::int64_t i = 0; i < s.head_dim; ++i)
        elements[is_key].push_back(out.y.data() + r * s.qkv_cols() + column + i);
    });
    for (const bool is_key : {false, true}) {
      double squares = 0;
      for (const double* element : elements[is_key]) squares += *element * *element;
      const auto count = static_cast<double>(elements[is_key].size());
      out.rstd.push_back(1 / std::sqrt(squares / count + s.eps));
      for (std::size_t i = 0; i < elements[is_key].size(); ++i)
        *elements[is_key][i] *=
            out.rstd.back() * factor(s, (is_key ? key_weight : query_weight)[i]);
    }
  }
  return out;
}

Forward reference(const HeadNormShape& s, const std::vector<double>& x,
                  const std::vector<double>& query_weight, const std::vector<double>& key_weight) {
  if (s.all_heads) return reference_of_all_heads(s, x, query_weight, key_weight);
  Forward out{x, {}};
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for_normed_heads(s, [&](std::int64_t column, std::int64_t, bool is_key) {
      double* const head = out.y.data() + r * s.qkv_cols() + column;
      double squares = 0;
      for (std::int64_t i = 0; i < s.head_dim; ++i) squares += head[i] * head[i];
      out.rstd.push_back(1 / std::sqrt(squares / static_cast<double>(s.head_dim) + s.eps));
      for (std::int64_t i = 0; i < s.head_dim; ++i)
        head[i] *= out.rstd.back() * factor(s, (is_key ? key_weight : query_weight)[i]);
    });
  }
  return out;
}

constexpr HeadNormShape zero_centered(HeadNormShape shape) {
  shape.zero_centered = true;
  return shape;
}

constexpr HeadNormShape shapes[] = {
    {{2, 3, 4, 1e-5}, 3},
    {{1, 1, 7, 1e-6}, 5},
    {{3, 2, 64, 1e-6}, 33},
    {{2, 1, 128, 1e-5}, 2},
    {{2, 3, 4, 1e-2, true}, 3},
    {{1, 1, 7, 1e-6, true}, 5},
    {{3, 2, 64, 1e-6, true}, 33},
    {{1, 4, 128, 1e-5, true}, 2},
    zero_centered({{2, 3, 20, 1e-5}, 3}),
    zero_centered({{1, 2, 7, 1e-5, true}, 3}),
};

template <class T>
class HeadNorm : public testing::Test {};
TYPED_TEST_SUITE(HeadNorm, StorageTypes);

TYPED_TEST(HeadNorm, NormalizesQueriesAndKeysOnly) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const HeadNormShape& s : shapes) {
      const auto x = random_values<T>(s.rows * s.qkv_cols(), 1);
      const auto wq = random_values<T>(s.query_weights(), 2);
      const auto wk = random_values<T>(s.key_weights(), 3);
      const Guarded<T> from(x), query_weight(wq), key_weight(wk);
      Guarded<T> y(x.size());
      Guarded<Acc<T>> rstd(s.rows * s.norms());
      kernels<T>(set).head_norm(queue(), s, y.data(), rstd.data(), from.data(), query_weight.data(),
                                key_weight.data(), nullptr);
      const Forward expected = reference(s, x, wq, wk);
      EXPECT_TRUE(close(y, expected.y, 8));
      EXPECT_TRUE(close(rstd, expected.rstd, 8));
    }
  });
}

// Against differences of the sum of dy * y, in double.
TEST(HeadNormGradient, IsThatOfTheNorm) {
  with_sets([](Isa set) {
    for (const HeadNormShape& s :
         {shapes[0], shapes[1], shapes[4], shapes[5], shapes[8], shapes[9]}) {
      auto x = random_values<double>(s.rows * s.qkv_cols(), 1);
      auto wq = random_values<double>(s.query_weights(), 2);
      auto wk = random_values<double>(s.key_weights(), 3);
      const auto dy = random_values<double>(x.size(), 4);
      const Forward at = reference(s, x, wq, wk);
      const auto start = random_values<double>(s.query_weights(), 5);
      Guarded<double> dx(x.size()), dwq(start);
      Guarded<double> dwk(std::vector<double>(start.begin(), start.begin() + s.key_weights()));
      Guarded<double> workspace(norm_grad_workspace(s.rows, s.query_weights()));
      kernels<double>(set).head_norm_grad(queue(), s,
                                          {.dx = dx.data(),
                                           .dquery_weight = dwq.data(),
                                           .dkey_weight = dwk.data(),
                                           .accumulate = true,
                                           .dy = Guarded<double>(dy).data(),
                                           .x = Guarded<double>(x).data(),
                                           .rstd = Guarded<double>(at.rstd).data(),
                                           .query_weight = Guarded<double>(wq).data(),
                                           .key_weight = Guarded<double>(wk).data(),
                                           .workspace = workspace.data()});
      const auto slope = [&](double& element) {
        constexpr double step = 1e-6;
        const double kept = element;
        double difference = 0;
        for (const double sign : {1.0, -1.0}) {
          element = kept + sign * step;
          const Forward moved = reference(s, x, wq, wk);
          for (std::size_t i = 0; i < dy.size(); ++i) difference += sign * dy[i] * moved.y[i];
        }
        element = kept;
        return difference / (2 * step);
      };
      for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(dx.data()[i], slope(x[i]), 1e-6) << i;
      for (std::size_t i = 0; i < wq.size(); ++i)
        EXPECT_NEAR(dwq.data()[i] - start[i], slope(wq[i]), 1e-6) << i;
      for (std::size_t i = 0; i < wk.size(); ++i)
        EXPECT_NEAR(dwk.data()[i] - start[i], slope(wk[i]), 1e-6) << i;
    }
  });
}

// Heads as ranks share them: groups of two queries, or of one with a copy of a key and a value.
struct SharedHeads {
  std::int64_t groups, queries, ranks, copies;
};

// Columns of a row that a rank has, of head_dim each.
std::vector<std::int64_t> columns_of(const SharedHeads& all, std::int64_t rank,
                                     std::int64_t head_dim) {
  const std::int64_t in_group = all.queries + 2, parts = all.ranks / all.copies;
  std::vector<std::int64_t> heads;
  for (std::int64_t g = rank / all.copies * all.groups / parts;
       g < (rank / all.copies + 1) * all.groups / parts; ++g) {
    const std::int64_t own = all.queries / all.copies, first = rank % all.copies * own;
    for (std::int64_t q = first; q < first + own; ++q) heads.push_back(g * in_group + q);
    heads.push_back(g * in_group + all.queries);
    heads.push_back(g * in_group + all.queries + 1);
  }
  std::vector<std::int64_t> columns;
  for (const std::int64_t head : heads)
    for (std::int64_t i = 0; i < head_dim; ++i) columns.push_back(head * head_dim + i);
  return columns;
}

std::vector<double> taken(const std::vector<double>& from, std::int64_t width,
                          const std::vector<std::int64_t>& columns) {
  std::vector<double> out;
  for (std::size_t row = 0; row < from.size(); row += width)
    for (const std::int64_t column : columns) out.push_back(from[row + column]);
  return out;
}

// What the kernels of all ranks make, given the sums of all of them, is what one rank makes: y,
// rstd and, with the copies of a key added up, dx and the gradients of the weights.
TEST(SharedHeadNorm, IsThatOfOneRank) {
  constexpr std::int64_t rows = 5, head_dim = 6;
  for (const SharedHeads& all : {SharedHeads{4, 2, 2, 1}, {2, 4, 4, 2}, {1, 3, 3, 3}}) {
    const HeadNormShape whole{{all.groups, all.queries, head_dim, 1e-3, true}, rows};
    const auto x = random_values<double>(rows * whole.qkv_cols(), 1);
    const auto wq = random_values<double>(whole.query_weights(), 2);
    const auto wk = random_values<double>(whole.key_weights(), 3);
    const Forward expected = reference(whole, x, wq, wk);
    const auto full_dy = random_values<double>(rows * whole.qkv_cols(), 4);
    with_sets([&](Isa set) {
      const auto& k = kernels<double>(set);
      std::vector<double> dx(full_dy.size()), dwq(wq.size()), dwk(wk.size());
      Guarded<double> workspace(norm_grad_workspace(rows, whole.query_weights()));
      k.head_norm_grad(queue(), whole,
                       {.dx = dx.data(),
                        .dquery_weight = dwq.data(),
                        .dkey_weight = dwk.data(),
                        .dy = full_dy.data(),
                        .x = x.data(),
                        .rstd = expected.rstd.data(),
                        .query_weight = wq.data(),
                        .key_weight = wk.data(),
                        .workspace = workspace.data()});
      struct Rank {
        HeadNormShape shape;
        std::vector<std::int64_t> columns, queries, keys;  // and elements of the weights
        std::vector<double> x, dy, wq, wk;
      };
      std::vector<Rank> ranks;
      std::vector<double> squares(rows * 2), products(rows * 2);
      for (std::int64_t r = 0; r < all.ranks; ++r) {
        Rank rank{whole, columns_of(all, r, head_dim), {}, {}, {}, {}, {}, {}};
        const std::int64_t parts = all.ranks / all.copies, share = all.groups / parts;
        rank.shape.groups = share;
        rank.shape.queries_per_group = all.queries / all.copies;
        rank.shape.all_queries = all.groups * all.queries;
        rank.shape.all_keys = all.groups;
        rank.shape.counts_keys = r % all.copies == 0;
        for (std::int64_t i = 0; i < rank.shape.query_weights(); ++i)
          rank.queries.push_back(r * rank.shape.query_weights() + i);
        for (std::int64_t i = 0; i < rank.shape.key_weights(); ++i)
          rank.keys.push_back(r / all.copies * rank.shape.key_weights() + i);
        rank.x = taken(x, whole.qkv_cols(), rank.columns);
        rank.dy = taken(full_dy, whole.qkv_cols(), rank.columns);
        // Of a key with copies each has a part of the gradient.
        for (std::int64_t at = 0; at < std::ssize(rank.dy); ++at) {
          const std::int64_t head = at % rank.shape.qkv_cols() / head_dim;
          if (head % (rank.shape.queries_per_group + 2) >= rank.shape.queries_per_group)
            rank.dy[at] /= static_cast<double>(all.copies);
        }
        rank.wq = taken(wq, std::ssize(wq), rank.queries);
        rank.wk = taken(wk, std::ssize(wk), rank.keys);
        Guarded<double> sums(rows * 2);
        k.head_sums(queue(), rank.shape, sums.data(), rank.x.data(), nullptr, nullptr, nullptr);
        for (std::int64_t i = 0; i < rows * 2; ++i) squares[i] += sums[i];
        k.head_sums(queue(), rank.shape, sums.data(), rank.x.data(), rank.dy.data(), rank.wq.data(),
                    rank.wk.data());
        for (std::int64_t i = 0; i < rows * 2; ++i) products[i] += sums[i];
        ranks.push_back(std::move(rank));
      }
      std::vector<double> all_dx(dx.size()), all_dwq(dwq.size()), all_dwk(dwk.size());
      for (const Rank& rank : ranks) {
        Guarded<double> y(rank.x.size()), rstd(rows * 2), own_dx(rank.x.size());
        Guarded<double> own_dwq(rank.wq.size()), own_dwk(rank.wk.size());
        k.head_norm(queue(), rank.shape, y.data(), rstd.data(), rank.x.data(), rank.wq.data(),
                    rank.wk.data(), squares.data());
        EXPECT_TRUE(close(y, taken(expected.y, whole.qkv_cols(), rank.columns), 8));
        EXPECT_TRUE(close(rstd, expected.rstd, 8));
        k.head_norm_grad(queue(), rank.shape,
                         {.dx = own_dx.data(),
                          .dquery_weight = own_dwq.data(),
                          .dkey_weight = own_dwk.data(),
                          .dy = rank.dy.data(),
                          .x = rank.x.data(),
                          .rstd = rstd.data(),
                          .query_weight = rank.wq.data(),
                          .key_weight = rank.wk.data(),
                          .sums = products.data(),
                          .workspace = workspace.data()});
        const auto width = static_cast<std::int64_t>(rank.columns.size());
        for (std::int64_t i = 0; i < own_dx.size(); ++i)
          all_dx[i / width * whole.qkv_cols() + rank.columns[i % width]] += own_dx[i];
        for (std::int64_t i = 0; i < own_dwq.size(); ++i) all_dwq[rank.queries[i]] += own_dwq[i];
        for (std::int64_t i = 0; i < own_dwk.size(); ++i) all_dwk[rank.keys[i]] += own_dwk[i];
      }
      for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(all_dx[i], dx[i], 1e-13) << i;
      for (std::size_t i = 0; i < dwq.size(); ++i) EXPECT_NEAR(all_dwq[i], dwq[i], 1e-13) << i;
      for (std::size_t i = 0; i < dwk.size(); ++i) EXPECT_NEAR(all_dwk[i], dwk[i], 1e-13) << i;
    });
  }
}

}  // namespace
}  // namespace trireme::cpu
