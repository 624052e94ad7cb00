// Tests of collectives on MPI processes: every process runs all tests, in the same order.
#include <gtest/gtest.h>

#include "comm/collectives.h"
#include "comm/mesh.h"
#include "comm/mpi/device.h"
#include "comm/through_device.h"
#include "comm/transport.h"

namespace trireme {
namespace {

using namespace testing_comm;

Transport* job = nullptr;

TEST(Mpi, KnowsItsPlace) {
  EXPECT_EQ(job->place().size, job->world().size());
  EXPECT_EQ(job->place().rank, job->world().rank());
  EXPECT_EQ(job->place().local_size, job->place().size);  // all ranks are on this machine
  EXPECT_FALSE(job->place().host.empty());
}

TEST(Mpi, SumsHaveTheDocumentedOrder) {
  for (const std::int64_t count : {0, 1, 3, 4096, 4097, 300000}) {
    check_sums<float>(job->world(), count, DType::f32);
    check_sums<bf16>(job->world(), count, DType::bf16);
    check_sums<std::int64_t>(job->world(), count, DType::i64);
  }
  check_maximum(job->world());
}

TEST(Mpi, DataMoves) {
  for (const std::int64_t count : {0, 1, 1000, 100000}) check_movement(job->world(), count);
  check_ring(job->world(), 1000000);
  job->world().barrier("barrier").wait();
}

TEST(Mpi, GroupsOfAMeshWorkSideBySide) {
  const Mesh mesh(fit_degrees(job->place().size, {.tp = 2}));
  const int rank = job->place().rank;
  const auto tp = job->group(mesh.group(rank, Axes::tp), "tp");
  const auto dp = job->group(mesh.group(rank, Axes::dp), "dp");
  const auto pp = job->group(mesh.group(rank, Axes::pp), "pp");
  EXPECT_EQ(tp->size(), 2);
  EXPECT_EQ(pp->size(), 1);
  check_crowd(*tp, *dp);
  check_crowd(job->world(), *tp);
  check_sums<float>(*dp, 5000, DType::f32);
}

TEST(Mpi, RanksThatAgreeGoOn) {
  check_agreement(job->world(), {{"version", 1}, {"configuration", 2}});
}

// The substitute library sums in a different order than ours, so the expected bits cannot come from
// it.
TEST(DeviceRanks, KeepTheContractOfACommunicator) {
  for (const QueueRole queue : {QueueRole::compute, QueueRole::reduce}) {
    DeviceRanks ranks(*job, queue);
    ThroughDevice group(ranks.gpu, *ranks.group);
    for (const std::int64_t count : {0, 1, 3, 4097, 100000}) {
      check_sums<float>(group, count, DType::f32);
      check_sums<bf16>(group, count, DType::bf16);
      check_sums<f16>(group, count, DType::f16);
      check_sums<std::int64_t>(group, count, DType::i64);
      check_movement(group, count);
      check_trees(group, count);
    }
    check_maximum(group);
    check_crowd(group, group);
  }
}

TEST(DeviceRanks, AddInSeveralTurnsWhereMemoryIsShort) {
  DeviceRanks ranks(*job, QueueRole::reduce, least_staging * job->place().size);
  ThroughDevice group(ranks.gpu, *ranks.group);
  for (const std::int64_t count : {1, 7, 8, 9, 131}) {
    check_sums<float>(group, count, DType::f32);
    check_sums<bf16>(group, count, DType::bf16);
    check_trees(group, count);
  }
}

// The host enqueues all operations before any of them runs.
TEST(DeviceRanks, OperationsFollowTheOneRule) {
  DeviceRanks ranks(*job);
  constexpr std::int64_t count = 1000;
  std::byte* const data = ranks.gpu.allocate(count);
  Queue& compute = ranks.gpu.queue();
  compute.fill(data, static_cast<std::uint8_t>(1 + job->place().rank), count);
  Work sum = ranks.group->all_reduce(data, count, DType::u8, Reduction::sum, "sum");
  sum.wait();
  compute.copy(data, data + count / 2, count / 4);
  compute.fill(data + count / 2, 0, count / 2);
  const int n = job->place().size;
  ranks.gpu.read(data, count, [&](const std::byte* host) {
    EXPECT_EQ(std::to_integer<int>(host[0]), n * (n + 1) / 2);
    EXPECT_EQ(std::to_integer<int>(host[count - 1]), 0);
  });
  ranks.gpu.release(data, count);
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto transport = trireme::open_transport({.timeout_s = 60});
  trireme::job = transport.get();
  // Rank 0 prints everything; the others print only failures.
  if (transport->place().rank != 0) {
    delete testing::UnitTest::GetInstance()->listeners().Release(
        testing::UnitTest::GetInstance()->listeners().default_result_printer());
  }
  std::int64_t failed = 0;
  trireme::run_guarded(*transport, [&] {
    failed = RUN_ALL_TESTS();
    if (failed) std::fprintf(stderr, "rank %d: tests failed\n", transport->place().rank);
    transport->world()
        .all_reduce(&failed, 1, trireme::DType::i64, trireme::Reduction::max, "verdict")
        .wait();
  });
  return failed ? 1 : 0;
}
