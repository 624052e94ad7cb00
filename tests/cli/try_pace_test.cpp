// Tests of how many steps `trireme try` still takes on a machine whose speed changes.
#include <gtest/gtest.h>

#include "cli/try/pace.h"

namespace trireme::cli {
namespace {

constexpr std::int64_t planned = 300;

// A run of 180 s; `step_seconds` gives the duration of a step by the time that has passed.
template <class StepSeconds>
std::pair<std::int64_t, double> run(StepSeconds step_seconds) {
  TryPace pace(5);
  std::int64_t steps = planned;
  double time = 0;
  pace.plan(steps);
  for (std::int64_t done = 0; done < steps; ++done) {
    const double seconds = step_seconds(time);
    time += seconds;
    pace.add(seconds);
    const std::int64_t fitting = pace.fitting(done + 1, 180 - time);
    if (fitting < steps) pace.plan(steps = fitting);
  }
  return {steps, time + 5 * step_seconds(time)};
}

TEST(TryPace, AMachineThatKeepsItsSpeedTakesThePlannedSteps) {
  EXPECT_EQ(run([](double) { return 0.5; }).first, planned);
}

TEST(TryPace, ASlowMachineEndsInTime) {
  for (const double slower : {1.5, 3.0, 10.0}) {
    const auto [steps, seconds] = run([&](double time) { return time < 30 ? 0.5 : 0.5 * slower; });
    EXPECT_LT(steps, planned) << slower;
    EXPECT_LE(seconds, 190) << slower;
    EXPECT_GE(seconds, 130) << slower;
  }
}

// Another job takes the machine for a while: most of the time remains.
TEST(TryPace, ASlowWhileCostsAFewSteps) {
  const auto [steps, seconds] = run([](double time) { return time > 40 && time < 60 ? 3.5 : 0.5; });
  EXPECT_GE(steps, planned / 2);
  EXPECT_LE(seconds, 180);
}

TEST(TryPace, ASingleSlowStepCostsNone) {
  bool was_slow = false;
  const auto [steps, seconds] = run([&](double time) {
    const bool slow = time > 40 && !was_slow;
    was_slow |= slow;
    return slow ? 3.0 : 0.5;
  });
  EXPECT_EQ(steps, planned);
}

}  // namespace
}  // namespace trireme::cli
