// Tests of the active trace: its writers are told to stop before it is destroyed.
#include "train/engine/active_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace trireme {
namespace {

TEST(ActiveTrace, IsTakenAwayBeforeItGoesAlsoByAnError) {
  Trace* seen = nullptr;
  try {
    ActiveTrace trace(0, [&](Trace* given) {
      if (given == nullptr) {  // the previous trace is still alive
        EXPECT_THAT(seen->json(), testing::HasSubstr("rank 0"));
      }
      seen = given;
    });
    ASSERT_NE(seen, nullptr);
    throw std::runtime_error("a step failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(seen, nullptr);
}

}  // namespace
}  // namespace trireme
