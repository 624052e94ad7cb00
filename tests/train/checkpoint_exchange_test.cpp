// Tests of checkpoints that ranks send to each other: all bytes arrive, or nothing does.
#include "train/checkpoints/checkpoint_exchange.h"

#include <gmock/gmock.h>

#include <fstream>
#include <mutex>

#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "comm/local.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class CheckpointExchange : public testing::Test {
 protected:
  CheckpointExchange() { fs::remove_all(folder_); }
  ~CheckpointExchange() override { fs::remove_all(folder_); }

  // Saves `count` numbers that start at `first` as rank's checkpoint of step 7.
  void save(int rank, std::int64_t count, float first = 1) const {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = first + static_cast<float>(i);
    const SourceSlice slice{"numbers",
                            DType::f32,
                            {count},
                            Region::whole({count}),
                            reinterpret_cast<const std::byte*>(numbers.data())};
    CheckpointState state;
    state.step = 7;
    save_checkpoint({.folder = own(rank)}, state, {&slice, 1});
  }
  fs::path own(int rank) const { return folder_ / ("own" + std::to_string(rank)); }
  fs::path copy(int rank) const { return folder_ / ("copy" + std::to_string(rank)); }
  static std::string bytes_of(const fs::path& file) { return read_file(file); }
  void expect_copied(int rank) const {
    for (const std::string& name : {shard_file(0), std::string(manifest_file)}) {
      const fs::path at = fs::path(step_folder(7)) / name;
      EXPECT_EQ(bytes_of(copy(rank) / at), bytes_of(own(rank) / at));
    }
    EXPECT_THAT(partial_folders(copy(rank)), IsEmpty());
  }
  // Every rank sends to the next one. Returns the results of the ranks.
  std::vector<std::string> in_a_ring(int ranks) const {
    std::vector<std::string> results(static_cast<std::size_t>(ranks));
    run_local_ranks(ranks, {.timeout_s = 60}, [&](Transport& transport) {
      const int rank = transport.place().rank, before = (rank + ranks - 1) % ranks;
      results[static_cast<std::size_t>(rank)] =
          exchange_checkpoints(transport.world(), {{(rank + 1) % ranks, own(rank), 7}},
                               {{before, copy(before), 7}}, nullptr);
    });
    return results;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "checkpoint_exchange";
};

// Sizes from nothing to three pieces: ranks have different numbers of messages.
TEST_F(CheckpointExchange, MovesAllBytes) {
  const std::int64_t counts[] = {1, 1 << 20, (3 << 20) - 5};
  for (int rank = 0; rank < 3; ++rank) save(rank, counts[rank]);
  for (const std::string& result : in_a_ring(3)) EXPECT_EQ(result, "");
  for (int rank = 0; rank < 3; ++rank) expect_copied(rank);
}

TEST_F(CheckpointExchange, ReplacesOneOfTheSameStep) {
  for (const float first : {1.0F, 100.0F}) {
    for (int rank = 0; rank < 2; ++rank) save(rank, 1000, first);
    for (const std::string& result : in_a_ring(2)) EXPECT_EQ(result, "");
    for (int rank = 0; rank < 2; ++rank) expect_copied(rank);
  }
}

TEST_F(CheckpointExchange, KeepsNothingThatIsDamaged) {
  for (int rank = 0; rank < 2; ++rank) save(rank, 1000);
  {
    std::fstream shard(own(0) / step_folder(7) / shard_file(0),
                       std::ios::in | std::ios::out | std::ios::binary);
    shard.seekp(-3, std::ios::end);
    shard.put('\x55');
  }
  const std::vector<std::string> results = in_a_ring(2);
  EXPECT_EQ(results[0], "");
  EXPECT_THAT(results[1], HasSubstr("numbers"));
  expect_copied(1);
  EXPECT_THAT(saved_steps(copy(0)), IsEmpty());
  EXPECT_THAT(partial_folders(copy(0)), IsEmpty());
}

// The other direction is not disturbed.
TEST_F(CheckpointExchange, NamesWhatCannotBeReadOrWritten) {
  save(0, 1000);
  const std::vector<std::string> results = in_a_ring(2);
  EXPECT_THAT(results[1], HasSubstr("own1"));
  EXPECT_THAT(results[0], HasSubstr("cannot read"));
  expect_copied(0);
  EXPECT_THAT(saved_steps(copy(1)), IsEmpty());

  save(1, 1000);
  fs::remove_all(copy(0));
  std::ofstream(copy(0)) << "a file where a folder belongs";
  const std::vector<std::string> again = in_a_ring(2);
  EXPECT_EQ(again[0], "");
  EXPECT_THAT(again[1], HasSubstr("copy0"));
  expect_copied(1);
}

// The receiver never answers.
TEST_F(CheckpointExchange, EndsWhenItIsCanceled) {
  save(0, 1000);
  run_local_ranks(2, {.timeout_s = 60}, [&](Transport& transport) {
    if (transport.place().rank > 0) return;
    std::atomic<bool> cancel{true};
    EXPECT_THAT(exchange_checkpoints(transport.world(), {{1, own(0), 7}}, {}, nullptr, &cancel),
                HasSubstr("interrupted"));
  });
}

}  // namespace
}  // namespace trireme
