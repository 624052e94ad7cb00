// Tests of rotary frequencies that depend on the length of a sequence.
#include "model/rotary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "config/rotary.h"

namespace trireme {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

ModelConfig longrope() {
  ModelConfig m;
  m.head_dim = 8;
  m.rope_percent = 0.5;
  m.rope_base = 100;
  m.rope_scaling = RopeScaling::longrope;
  m.rope_original_length = 16;
  m.rope_scaling_factor = 4;
  m.rope_short_factors = {1, 2};
  m.rope_long_factors = {4, 5};
  return m;
}

TEST(Rotary, LongropeDividesByTheNumbersOfTheLength) {
  const ModelConfig m = longrope();
  EXPECT_THAT(rotary_frequencies(m, 16), ElementsAre(DoubleEq(1), DoubleEq(0.1 / 2)));
  EXPECT_THAT(rotary_frequencies(m, 17), ElementsAre(DoubleEq(1. / 4), DoubleEq(0.1 / 5)));
  EXPECT_EQ(rotary_rows(m), 2);
  EXPECT_EQ(rotary_row(m, 3, 16), 6);
  EXPECT_EQ(rotary_row(m, 3, 17), 7);
}

TEST(Rotary, LongropeScalesQueriesAndKeys) {
  ModelConfig m = longrope();
  EXPECT_DOUBLE_EQ(rotary_amplitude(m), std::sqrt(1.5));  // ln 4 / ln 16 = 1 / 2
  m.rope_attention_factor = 1.25;
  EXPECT_EQ(rotary_amplitude(m), 1.25);
}

// Their own layers with a window turn as in short and long sequences alike.
TEST(Rotary, LocalFrequenciesAreNotScaled) {
  ModelConfig m = longrope();
  m.rope_base_local = 10000;
  const ModelConfig local = with_local_rotation(m);
  EXPECT_EQ(rotary_frequencies(local, 16), rotary_frequencies(local, 17));
}

TEST(Rotary, DynamicScalingLeavesSequencesThatFitAlone) {
  ModelConfig m = longrope();
  m.rope_scaling = RopeScaling::dynamic;
  EXPECT_THAT(rotary_frequencies(m, 17), ElementsAre(DoubleEq(1), DoubleEq(0.1)));
  EXPECT_EQ(rotary_row(m, 3, 17), 3);
}

}  // namespace
}  // namespace trireme
