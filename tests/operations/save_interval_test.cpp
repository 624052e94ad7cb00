// Tests that the checkpoint interval is optimal, and that the simulation's times add up.
#include "operations/save_interval.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr double day = 86400;
// 5,120 devices with the failure rate of Llama 3's: one failure every 9.9 hours.
constexpr double mtbf = llama3_device_mtbf / 5120;

double ettr(const FailingRun& run, double interval) {
  return simulate(run, interval, 2000 * day, 1).shares.training;
}

TEST(SaveInterval, IsYoungsAndDalys) {
  EXPECT_NEAR(mtbf / 3600, 9.9, 0.01);
  EXPECT_NEAR(young_interval(5, mtbf), 597, 1);
  EXPECT_NEAR(young_interval(40, mtbf), 1689, 1);
  EXPECT_NEAR(daly_interval(5, mtbf), 593.6, 0.5);
  EXPECT_EQ(daly_interval(100, 40), 40);
  EXPECT_EQ(best_interval({.mtbf = mtbf, .stall = 0.5, .write = 900}), 900);
}

TEST(SaveInterval, IsBetterThanOthers) {
  for (const double stall : {0.5, 5.0, 40.0}) {
    const FailingRun run{.mtbf = mtbf, .stall = stall, .write = stall, .restart = 120};
    const double best = best_interval(run), at_best = ettr(run, best);
    for (const double factor : {0.4, 2.5}) EXPECT_LT(ettr(run, factor * best), at_best) << stall;
  }
}

TEST(SimulatedRun, AgreesWithTheSumOfItsParts) {
  const FailingRun run{.mtbf = mtbf, .stall = 5, .write = 5, .restart = 120};
  const SimulatedRun s = simulate(run, 600, 2000 * day, 3);
  const TimeShares& t = s.shares;
  EXPECT_NEAR(t.training + t.saving + t.lost + t.restarting, 1, 1e-9);
  EXPECT_NEAR(t.saving, 5.0 / 605, 2e-4);
  EXPECT_NEAR(t.lost, 300 / mtbf, 1e-3);
  EXPECT_NEAR(t.restarting, 120 / mtbf, 3e-4);
  EXPECT_NEAR(static_cast<double>(s.failures), 2000 * day / mtbf, 300);
}

TEST(SimulatedRun, IsTheSameForTheSameSeed) {
  const FailingRun run{.mtbf = mtbf, .stall = 1, .write = 30, .restart = 120};
  const auto training = [&](std::uint64_t seed) {
    return simulate(run, 300, 50 * day, seed).shares.training;
  };
  EXPECT_EQ(training(7), training(7));
  EXPECT_NE(training(7), training(8));
}

// Work that is computed while a checkpoint is being written is lost with it.
TEST(SimulatedRun, CountsACheckpointFromWhereItIsComplete) {
  const FailingRun quick{.mtbf = mtbf, .stall = 1, .write = 1, .restart = 0};
  FailingRun slow = quick;
  slow.write = 250;
  const auto lost = [](const FailingRun& run) {
    return simulate(run, 300, 4000 * day, 1).shares.lost;
  };
  EXPECT_NEAR(lost(slow) - lost(quick), 249 / mtbf, 1e-3);
}

TEST(SimulatedRun, PaysForStartsThatFail) {
  FailingRun run{.mtbf = mtbf, .stall = 1, .write = 1, .restart = 60, .start_success = 0.45};
  EXPECT_NEAR(simulate(run, 300, 2000 * day, 1).shares.restarting, 60 / 0.45 / mtbf, 5e-4);
}

// Checks the statements of docs/operations.md.
TEST(SaveInterval, KeepsFiveThousandRanksAtWork) {
  const FailingRun background{.mtbf = mtbf, .stall = 1, .write = 40, .restart = 120};
  EXPECT_GT(ettr(background, best_interval(background)), 0.98);
  FailingRun unsteady = background;
  unsteady.start_success = 0.45;
  EXPECT_GT(ettr(unsteady, best_interval(unsteady)), 0.98);
  const FailingRun waits{.mtbf = mtbf, .stall = 40, .write = 40, .restart = 120};
  EXPECT_NEAR(ettr(waits, best_interval(waits)), 0.95, 0.01);
}

}  // namespace
}  // namespace trireme
