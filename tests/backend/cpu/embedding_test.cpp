// Embedding look-up and its gradient, whole and as one rank's share of the vocabulary.
#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

std::vector<std::int32_t> make_ids(std::int64_t rows, std::int64_t vocab) {
  std::vector<std::int32_t> ids(rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double u = uniform(1, 2, r);
    ids[r] = static_cast<std::int32_t>(u * u * u * static_cast<double>(vocab));  // some often
  }
  return ids;
}

template <class T>
class Embedding : public testing::Test {};
TYPED_TEST_SUITE(Embedding, StorageTypes);

TYPED_TEST(Embedding, AddsTheTables) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const std::int64_t cols : {1, 3, 17, 769}) {
      const std::int64_t rows = 12, seq = 6, vocab = 50;
      const auto table = random_values<T>(vocab * cols, 1),
                 position = random_values<T>(9 * cols, 2), type = random_values<T>(2 * cols, 3);
      const auto ids = make_ids(rows, vocab);
      const std::vector<std::int32_t> positions = {0, 1, 2, 0, 1, 8, 3, 3, 7, 0, 1, 2};
      const std::vector<std::int32_t> types = {0, 1, 0, 1, 1, 1, 0, 0, 1, 0, 1, 0};
      const Guarded<T> t(table), p(position), ty(type);
      for (int used = 0; used < 3; ++used) {  // the first table; and positions; and types
        std::vector<double> want(rows * cols);
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t at = used == 1 ? r % seq : positions[r];
          for (std::int64_t c = 0; c < cols; ++c) {
            want[r * cols + c] = table[ids[r] * cols + c] +
                                 (used > 0 ? position[at * cols + c] : 0) +
                                 (used > 1 ? type[types[r] * cols + c] : 0);
          }
        }
        Guarded<T> y(rows * cols);
        kernels<T>(set).embedding(queue(), {.y = y.data(),
                                            .ids = ids.data(),
                                            .table = t.data(),
                                            .position_table = used > 0 ? p.data() : nullptr,
                                            .positions = used == 1 ? nullptr : positions.data(),
                                            .type_table = used > 1 ? ty.data() : nullptr,
                                            .types = types.data(),
                                            .rows = rows,
                                            .cols = cols,
                                            .seq = seq,
                                            .first_id = 0,
                                            .local_ids = vocab});
        EXPECT_TRUE(close(y, want, 4));
      }
    }
  });
}

TYPED_TEST(Embedding, SharesOfTheVocabularyAddUpToTheWhole) {
  using T = TypeParam;
  with_sets([](Isa set) {
    const std::int64_t rows = 40, cols = 33, vocab = 30, split = 11;
    const auto ids = make_ids(rows, vocab);
    const Guarded<T> table(random_values<T>(vocab * cols, 4)), p(random_values<T>(rows * cols, 5));
    Guarded<T> whole(rows * cols), low(rows * cols), high(rows * cols);
    const auto& k = kernels<T>(set);
    const auto look_up = [&](Guarded<T>& y, std::int64_t first, std::int64_t count) {
      k.embedding(queue(), {.y = y.data(),
                            .ids = ids.data(),
                            .table = table.data() + first * cols,
                            .position_table = p.data(),
                            .rows = rows,
                            .cols = cols,
                            .seq = rows,
                            .first_id = first,
                            .local_ids = count});
    };
    look_up(whole, 0, vocab);
    look_up(low, 0, split);
    look_up(high, split, vocab - split);
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      EXPECT_EQ(whole[i], low[i] + high[i]);
      EXPECT_EQ((ids[i / cols] < split ? high : low)[i], 0);
    }
  });
}

TYPED_TEST(Embedding, GradientSumsRowsOfEqualId) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    for (const std::int64_t cols : {1, 3, 17, 769}) {
      const std::int64_t rows = 200, vocab = 37, first = 3, local = 20;
      const auto ids = make_ids(rows, vocab);
      const auto dy = random_values<T>(rows * cols, 6);
      const auto old = random_values<A>(local * cols, 7);
      for (const bool accumulate : {false, true}) {
        std::vector<double> want = accumulate ? old : std::vector<double>(local * cols, 0);
        for (std::int64_t r = 0; r < rows; ++r) {
          if (ids[r] < first || ids[r] >= first + local) continue;
          for (std::int64_t c = 0; c < cols; ++c) {
            want[(ids[r] - first) * cols + c] += dy[r * cols + c];
          }
        }
        const Guarded<T> grad(dy);
        Guarded<A> dtable(old);
        Guarded<std::int32_t> workspace(embedding_grad_workspace(rows, local));
        kernels<T>(set).embedding_grad(queue(), dtable.data(), accumulate, ids.data(), grad.data(),
                                       rows, cols, first, local, workspace.data());
        EXPECT_TRUE(close(dtable, want, 32, 8));
        EXPECT_TRUE(workspace.intact());
      }
    }
  });
}

// Rows of equal id are added one by one in row order: so a batch in one piece and in two gives the
// same bits.
TYPED_TEST(Embedding, GradientDoesNotDependOnTheCutOrTheThreads) {
  using T = TypeParam;
  using A = Acc<T>;
  const std::int64_t rows = 999, cols = 65, vocab = 100, cut = 400;
  const auto ids = make_ids(rows, vocab);
  const Guarded<T> dy(random_values<T>(rows * cols, 8));
  std::vector<A> want(vocab * cols, A{0});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      want[ids[r] * cols + c] += static_cast<A>(dy[r * cols + c]);
    }
  }
  std::vector<std::int32_t> workspace(embedding_grad_workspace(rows, vocab));
  with_thread_counts([&](int) {
    const auto& k = kernels<T>();
    std::vector<A> whole(vocab * cols, A{5}), pieces(vocab * cols, A{5});
    k.embedding_grad(queue(), whole.data(), false, ids.data(), dy.data(), rows, cols, 0, vocab,
                     workspace.data());
    k.embedding_grad(queue(), pieces.data(), false, ids.data(), dy.data(), cut, cols, 0, vocab,
                     workspace.data());
    k.embedding_grad(queue(), pieces.data(), true, ids.data() + cut, dy.data() + cut * cols,
                     rows - cut, cols, 0, vocab, workspace.data());
    EXPECT_EQ(whole, want);
    EXPECT_EQ(pieces, want);
  });
}

}  // namespace
}  // namespace trireme::cpu
