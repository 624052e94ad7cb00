// Tests of the loader: distribution of samples, resuming, errors and orderly shutdown.
#include "data/loader.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "data/temp_folder.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using testing_data::expect_error;

// A dataset whose sample i is a row of the number i; sample `bad` cannot be read.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t size, std::int64_t bad = -1) : size_(size), bad_(bad) {}
  std::int64_t size() const override { return size_; }
  std::int64_t seq_length() const override { return 3; }
  void fill(std::int64_t index, const BatchRow& row) const override {
    ++filled;
    if (index == bad_) fail_input("sample {} is bad", index);
    // Samples take different times, so that threads finish out of order.
    std::this_thread::sleep_for(std::chrono::microseconds(index % 3 * 50));
    for (int t = 0; t < 3; ++t) row.tokens[t] = row.targets[t] = static_cast<std::int32_t>(index);
  }
  std::vector<SamplePart> parts(std::int64_t) const override { return {}; }
  std::uint64_t order_key() const override { return 0; }
  mutable std::atomic<int> filled = 0;

 private:
  std::int64_t size_, bad_;
};

// Plans count batches by this.
TEST(Batch, BytesAreThoseOfAllItsArrays) {
  const Batch batch(3, 5);
  const auto bytes = [](const auto&... arrays) {
    return static_cast<std::int64_t>(((arrays.size() * sizeof(arrays[0])) + ...));
  };
  EXPECT_EQ(
      Batch::bytes(3, 5),
      bytes(batch.tokens, batch.targets, batch.loss_weights, batch.positions, batch.first_visible,
            batch.segments, batch.sample_ids, batch.lengths, batch.order_labels, batch.new_tokens));
}

TEST(Loader, RanksTogetherTakeEverySampleOnceInMegatronsOrder) {
  const auto data = std::make_shared<Numbers>(96);
  for (const std::int64_t dp : {1, 2, 4}) {
    for (const int threads : {1, 3}) {
      for (std::int64_t rank = 0; rank < dp; ++rank) {
        Loader loader(data,
                      {.micro_batch_size = 2, .dp_rank = rank, .dp_size = dp, .threads = threads});
        for (std::int64_t k = 0; k < 96 / (2 * dp); ++k) {
          const Batch batch = loader.next();
          const std::int64_t first = k * 2 * dp + rank * 2;
          ASSERT_THAT(batch.sample_ids, ElementsAre(first, first + 1));
          ASSERT_EQ(batch.tokens[0], first);
          ASSERT_EQ(batch.targets[3], first + 1);
          ASSERT_EQ(loader.consumed_samples(), (k + 1) * 2 * dp);
        }
      }
    }
  }
}

TEST(Loader, ResumeInTheMiddleEqualsTheUninterruptedRun) {
  const auto data = std::make_shared<Numbers>(200);
  Loader whole(data,
               {.micro_batch_size = 2, .dp_rank = 1, .dp_size = 2, .prefetch = 7, .threads = 2});
  std::vector<std::int64_t> seen;
  for (int k = 0; k < 40; ++k) seen.push_back(whole.next().sample_ids[0]);
  // Resumes after 13 micro-batches, as if a ramp-up had ended there, and with a jump back.
  Loader resumed(data,
                 {.micro_batch_size = 2, .dp_rank = 1, .dp_size = 2, .consumed_samples = 13 * 4});
  for (int k = 13; k < 40; ++k) EXPECT_EQ(resumed.next().sample_ids[0], seen[k]);
  resumed.seek(5 * 4);
  EXPECT_EQ(resumed.consumed_samples(), 20);
  for (int k = 5; k < 40; ++k) EXPECT_EQ(resumed.next().sample_ids[0], seen[k]);
}

TEST(Loader, OtherLayoutResumesWithTheNextSamples) {
  const auto data = std::make_shared<Numbers>(100);
  Loader before(data, {.micro_batch_size = 4, .dp_size = 1});
  before.next();
  before.next();
  Loader after(data, {.micro_batch_size = 1,
                      .dp_rank = 2,
                      .dp_size = 4,
                      .consumed_samples = before.consumed_samples()});
  EXPECT_THAT(after.next().sample_ids, ElementsAre(10));
}

TEST(Loader, ErrorsComeOutInOrderAndTheLoaderStaysUsable) {
  const auto data = std::make_shared<Numbers>(20, 5);
  Loader loader(data, {.micro_batch_size = 2, .prefetch = 8, .threads = 3});
  loader.next();
  loader.next();
  for (int again = 0; again < 2; ++again) {
    expect_error(ExitCode::bad_input, {"sample 5 is bad"}, [&] { loader.next(); });
  }
  loader.seek(6);
  EXPECT_THAT(loader.next().sample_ids, ElementsAre(6, 7));
}

TEST(Loader, EndOfDataIsAnErrorOnlyForWhoAsks) {
  const auto data = std::make_shared<Numbers>(7);
  Loader loader(data, {.micro_batch_size = 2, .prefetch = 10});
  for (int k = 0; k < 3; ++k) loader.next();
  expect_error(ExitCode::bad_input, {"no more data", "sample 7", "with 7"}, [&] { loader.next(); });
}

TEST(Loader, PrefetchesWithoutBeingAskedAndNoMoreThanAllowed) {
  const auto data = std::make_shared<Numbers>(100);
  Loader loader(data, {.prefetch = 5});
  for (int wait = 0; data->filled < 5 && wait < 1000; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(data->filled, 5);
}

TEST(Loader, StopsAtOnceWithFullAndWithEmptyRings) {
  const auto data = std::make_shared<Numbers>(1000);
  for (int i = 0; i < 50; ++i) {
    Loader loader(data, {.prefetch = 1 + i % 4, .threads = 1 + i % 3});
    if (i % 2) loader.next();
  }
}

}  // namespace
}  // namespace trireme
