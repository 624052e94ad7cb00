// Tests of split weights and the resulting ranges.
#include "data/split.h"

#include <gtest/gtest.h>

#include "data/temp_folder.h"

namespace trireme {
namespace {

using testing_data::expect_error;

TEST(Split, CumulatesAndRoundsAsMegatron) {
  const Shares shares = parse_split("969,30,1");
  EXPECT_EQ(range_of(*shares[0], 1000).end, 969);
  EXPECT_EQ(range_of(*shares[1], 1000).begin, 969);
  EXPECT_EQ(range_of(*shares[1], 1000).end, 999);
  EXPECT_EQ(range_of(*shares[2], 1000).end, 1000);
  // 10 documents: round(9.69) = 10 leaves nothing for the rest.
  EXPECT_EQ(range_of(*shares[0], 10).size(), 10);
  EXPECT_EQ(range_of(*shares[1], 10).size(), 0);
  // Halves round to even: 2.5 becomes 2.
  EXPECT_EQ(range_of(*parse_split("1,1")[0], 5).end, 2);
  EXPECT_EQ(range_of(*parse_split("1,1")[0], 7).end, 4);
}

TEST(Split, ZeroOrMissingWeightsGiveNoPart) {
  const Shares shares = parse_split("98, 2");
  EXPECT_TRUE(shares[0] && shares[1]);
  EXPECT_FALSE(shares[2]);
  EXPECT_FALSE(parse_split("100,0,0")[1]);
  EXPECT_TRUE(parse_split("0,0,1")[2]);
  EXPECT_TRUE(parse_split("98/1/1")[2]);
}

TEST(Split, RefusesNonsense) {
  for (const char* text : {"", "0,0,0", "a", "1,2,3,4", "1,-2", "1;2", "1e999", "nan", "1,2x"}) {
    expect_error(ExitCode::bad_input, {"split"}, [&] { parse_split(text); });
  }
}

}  // namespace
}  // namespace trireme
