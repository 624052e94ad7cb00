// Tests of the communication layer on threads: values, bits, order, agreement, and behavior on
// failure.
#include "comm/local.h"
#include "base/held_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/rank_list.h"
#include "comm/running_time.h"

namespace trireme {
namespace {

using namespace testing_comm;
using testing::HasSubstr;
using testing::Not;

void on_ranks(int ranks, const std::function<void(Transport&)>& body) {
  run_local_ranks(ranks, {.timeout_s = 60}, body);
}

TEST(Collectives, SumsHaveTheDocumentedOrderForEverySizeAndType) {
  for (const int ranks : {2, 3, 5, 8}) {
    on_ranks(ranks, [](Transport& transport) {
      Communicator& world = transport.world();
      // Boundary sizes: empty, one, fewer than ranks, the small algorithm, several segments.
      for (const std::int64_t count : {0, 1, 2, 7, 1000, 4096, 4097, 70000}) {
        check_sums<float>(world, count, DType::f32);
        check_sums<bf16>(world, count, DType::bf16);
        check_sums<std::int64_t>(world, count, DType::i64);
      }
      check_sums<double>(world, 5000, DType::f64);
      check_sums<f16>(world, 9000, DType::f16);
      check_sums<std::int32_t>(world, 9000, DType::i32);
      for (const std::int64_t count : {0, 1, 3000, 200000}) check_trees(world, count);
      check_maximum(world);
    });
  }
}

TEST(Collectives, MoveDataAsDocumented) {
  for (const int ranks : {2, 3, 7, 20}) {
    on_ranks(ranks, [](Transport& transport) {
      for (const std::int64_t count : {0, 1, 1000}) check_movement(transport.world(), count);
      check_ring(transport.world(), 100000);
      transport.world().barrier("barrier").wait();
    });
  }
}

TEST(Collectives, ManyAtOnceInSeveralGroups) {
  on_ranks(6, [](Transport& transport) {
    const int rank = transport.place().rank;
    const auto parity = transport.group({rank % 2, rank % 2 + 2, rank % 2 + 4}, "parity");
    const auto reversed = transport.group({5, 4, 3, 2, 1, 0}, "reversed");
    EXPECT_EQ(reversed->rank(), 5 - rank);
    check_crowd(transport.world(), *parity);
    check_crowd(*reversed, *parity);
    check_sums<float>(*reversed, 3000, DType::f32);
  });
}

TEST(Collectives, ABarrierHoldsEverybody) {
  std::atomic<int> inside{0};
  on_ranks(5, [&](Transport& transport) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * transport.place().rank));
    ++inside;
    transport.world().barrier("barrier").wait();
    EXPECT_EQ(inside, 5);
  });
}

TEST(Collectives, GoOnWhileNobodyWaits) {
  on_ranks(2, [&](Transport& transport) {
    std::vector<float> data(1 << 20, 1.0f);
    Work work = transport.world().all_reduce(data.data(), 1 << 20, DType::f32, Reduction::sum,
                                             "background");
    const auto begin = std::chrono::steady_clock::now();
    while (!work.done() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(work.done());
    EXPECT_EQ(data[12345], 2.0f);
  });
}

// A Work is destroyed without a wait: the memory it uses stays until the operation completes.
TEST(Collectives, GoOnWithoutTheirWork) {
  on_ranks(2, [&](Transport& transport) {
    Communicator& world = transport.world();
    constexpr std::int64_t count = 1 << 16;
    std::vector<float> data(count, 7.f);
    std::atomic<bool> freed{false};
    if (transport.place().rank == 0) {
      { const Work dropped = world.receive(data.data(), count, DType::f32, 1, "late"); }
      free_when_released({data.data(), count * sizeof(float)}, [&] { freed = true; });
      EXPECT_FALSE(freed);
      world.barrier("nothing was sent yet").wait();
    } else {
      std::fill(data.begin(), data.end(), 9.f);
      world.barrier("nothing was sent yet").wait();
      world.send(data.data(), count, DType::f32, 0, "late").wait();
    }
    world.barrier("sent").wait();
    if (transport.place().rank == 0) {
      const auto begin = std::chrono::steady_clock::now();
      while (!freed && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20))
        std::this_thread::yield();
      EXPECT_TRUE(freed);
      EXPECT_EQ(data.back(), 9.f);
    }
  });
}

TEST(Collectives, AGroupOfOneNeedsNothing) {
  const auto self = make_self_communicator(3, "tp");
  check_sums<float>(*self, 100, DType::f32);
  check_movement(*self, 10);
  self->barrier("barrier").wait();
  EXPECT_EQ(self->world_ranks(), std::vector<int>{3});
}

std::string error_of(const std::function<void()>& body) {
  testing::internal::CaptureStderr();  // one rank also prints it
  struct Release {
    ~Release() { testing::internal::GetCapturedStderr(); }
  } release;
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Agreement, NamesWhatDiffersAndWhere) {
  const std::string message = error_of([] {
    on_ranks(5, [](Transport& transport) {
      const bool odd = transport.place().rank == 3;
      check_agreement(transport.world(),
                      {{"version", 1}, {"configuration", odd ? 8u : 7u}, {"graph", 5}});
    });
  });
  EXPECT_THAT(message, HasSubstr("configuration of rank 3"));
  EXPECT_THAT(message, Not(HasSubstr("version of rank")));
  EXPECT_EQ(error_of([] {
              on_ranks(3, [](Transport& t) { check_agreement(t.world(), {{"version", 1}}); });
            }),
            "");
}

TEST(Agreement, ComparesWhatIsComparedFirst) {
  const std::string message = error_of([] {
    on_ranks(4, [](Transport& transport) {
      if (transport.place().rank < 2) {
        check_agreement(transport.world(), {{"version", 1}});
      } else {
        check_agreement(transport.world(), {{"version", 1}, {"graph", 2}});
      }
    });
  });
  EXPECT_THAT(message, HasSubstr("list of compared properties of ranks 2-3"));
}

// Returns what the ranks print when the job ends, with short limits.
std::string last_output(int ranks, const std::function<void(Transport&)>& body) {
  testing::internal::CaptureStderr();
  EXPECT_THROW(run_local_ranks(ranks, {.timeout_s = 0.3, .patience_s = 0.3}, body), Error);
  return testing::internal::GetCapturedStderr();
}

int lines(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Watchdog, NamesTheCollectiveAndWhoDidNotArrive) {
  std::atomic<bool> ended{false};
  const std::string text = last_output(4, [&](Transport& transport) {
    if (transport.place().rank == 2) {  // computes, and responds
      std::this_thread::sleep_for(std::chrono::milliseconds(800));
      return;
    }
    float x = 1;
    transport.world().all_reduce(&x, 1, DType::f32, Reduction::sum, {"reduce gradients", 3}).wait();
  });
  EXPECT_THAT(text, HasSubstr("'reduce gradients 3' of group world (ranks 0-3)"));
  EXPECT_THAT(text, HasSubstr("Missing: rank 2 on local (is computing)"));
  EXPECT_EQ(lines(text), 1);
}

TEST(Watchdog, TheRankThatSpeaksLeavesItsWordsElsewhereToo) {
  std::mutex mutex;
  std::vector<LastMessage> left;
  const std::string text = last_output(3, [&](Transport& transport) {
    transport.set_last_output([&](const LastMessage& message) {
      const std::lock_guard lock(mutex);
      left.push_back(message);
      throw std::runtime_error("the disk is full");  // harmless
    });
    if (transport.place().rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(800));
    if (transport.place().rank != 1) transport.world().barrier("end of a step").wait();
  });
  ASSERT_EQ(left.size(), 1u);
  EXPECT_THAT(left[0].text, HasSubstr("'end of a step' of group world"));
  EXPECT_THAT(left[0].text, testing::StartsWith("rank "));
  EXPECT_THAT(left[0].silent, testing::IsEmpty());  // it responds, although it computes
  EXPECT_EQ(lines(text), 1);
}

// Rank 1 is busy with files for many times the limit; `moved` reports its progress.
void wait_for_busy_rank(Transport& transport, const std::function<std::uint64_t()>& moved) {
  if (transport.place().rank == 1) {
    transport.set_activity([&] {
      return Activity{true, moved(), "is writing a checkpoint, 1.0 GiB of 2.0 GiB"};
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    transport.set_activity(nullptr);
  }
  transport.world().barrier("end of a save").wait();
}

TEST(Watchdog, WaitsForARankWhoseFilesMove) {
  std::atomic<std::uint64_t> bytes{0};
  EXPECT_NO_THROW(run_local_ranks(
      3, {.timeout_s = 0.02, .patience_s = 0.3, .busy_waits = 4},
      [&](Transport& transport) { wait_for_busy_rank(transport, [&] { return ++bytes; }); }));
}

TEST(Watchdog, NamesARankWhoseFilesMoveNoMore) {
  testing::internal::CaptureStderr();
  EXPECT_THROW(run_local_ranks(
                   3, {.timeout_s = 0.02, .patience_s = 0.3, .busy_waits = 4},
                   [&](Transport& transport) { wait_for_busy_rank(transport, [] { return 7; }); }),
               Error);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("rank 1 on local (is writing a checkpoint, 1.0 GiB of 2.0 GiB; no "
                              "progress for"));
  EXPECT_EQ(lines(text), 1);
}

TEST(RunningTime, CountsNoTimeInWhichNobodyLooked) {
  using namespace std::chrono_literals;
  const auto begin = RunningTime::Clock::now();
  RunningTime time;
  EXPECT_NEAR(time.seconds(begin + 500ms), 0.5, 0.1);
  EXPECT_NEAR(time.seconds(begin + 1200ms), 1.2, 0.1);
  EXPECT_NEAR(time.seconds(begin + 2h), 2.2, 0.1);
  EXPECT_NEAR(time.seconds(begin + 2h + 300ms), 2.5, 0.1);
}

TEST(Watchdog, SeesMismatchedCalls) {
  const std::string text = last_output(2, [](Transport& transport) {
    float x = 1;
    if (transport.place().rank == 0) {
      transport.world().receive(&x, 1, DType::f32, 1, {"activation of micro-batch", 4}).wait();
    } else {
      transport.world().barrier("end of step").wait();
    }
  });
  // Either rank may report first; it names its own wait and the other's.
  EXPECT_THAT(text, HasSubstr("activation of micro-batch 4"));
  EXPECT_THAT(text, HasSubstr("end of step"));
  EXPECT_EQ(lines(text), 1);
}

TEST(Watchdog, SpeaksWhenAGroupIsNotMade) {
  const std::string text = last_output(3, [](Transport& transport) {
    if (transport.place().rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(800));
      return;
    }
    transport.group({0, 1, 2}, "tp");
  });
  EXPECT_THAT(text, HasSubstr("making group tp (ranks 0-2)"));
  EXPECT_THAT(text, HasSubstr("rank 1 on local (is computing)"));
}

TEST(Failure, OneMessageNamesTheRank) {
  const std::string text = last_output(4, [](Transport& transport) {
    if (transport.place().rank == 1) fail("the disk is full");
    float x = 1;
    transport.world().all_reduce(&x, 1, DType::f32, Reduction::sum, "loss").wait();
  });
  EXPECT_EQ(text, "trireme: rank 1 (local): the disk is full\n");
}

TEST(Failure, ManyRanksSpeakWithOneVoice) {
  const std::string text = last_output(6, [](Transport&) { fail("the same everywhere"); });
  EXPECT_THAT(text, HasSubstr("the same everywhere"));
  EXPECT_EQ(lines(text), 1);
}

TEST(RankList, JoinsNeighbors) {
  EXPECT_EQ(rank_list({0, 1, 2, 3, 7, 9, 10}), "0-3, 7, 9-10");
  EXPECT_EQ(rank_list({4}), "4");
  std::vector<int> even;
  for (int i = 0; i < 100; ++i) even.push_back(2 * i);
  EXPECT_THAT(rank_list(even), HasSubstr("and 84 more"));
}

}  // namespace
}  // namespace trireme
