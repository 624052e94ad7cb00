// The choice of the instruction set, and TRIREME_ISA, each in its own process.
#include "backend/cpu/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"

namespace trireme::cpu {
namespace {

using testing::HasSubstr;

TEST(Isa, NamesAreThoseOfTheEnvironmentVariable) {
  EXPECT_STREQ(name_of(Isa::avx2), "avx2");
  EXPECT_STREQ(name_of(Isa::avx512), "avx512");
  EXPECT_STREQ(name_of(Isa::amx), "amx");
}

TEST(Isa, BestSetIsSupportedAndSoIsAllBelow) {
  for (const Isa set : {Isa::avx2, Isa::avx512, Isa::amx})
    EXPECT_TRUE(supports(set) || set > best_isa()) << name_of(set);
}

#ifdef TRIREME_EMULATED_AMX
TEST(Isa, WithoutAmxItIsEmulated) {
  EXPECT_TRUE(supports(Isa::amx));
  EXPECT_TRUE(this_machine(Isa::amx).bf16_dot_products);
  EXPECT_TRUE(emulates_amx() || best_isa() == Isa::amx);
}
#endif

TEST(Isa, BestSetAgreesWithTheCompilersOwnDetection) {
  EXPECT_EQ(supports(Isa::avx2), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_TRUE(__builtin_cpu_supports("avx512vl") || !supports(Isa::avx512));
}

// Runs isa() in a child whose environment has TRIREME_ISA, since the choice is made once.
void choose_in_child(const char* wish) {
  setenv("TRIREME_ISA", wish, 1);
  try {
    std::fprintf(stderr, "chose %s", name_of(isa()));
    std::exit(0);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s", error.what());
    std::exit(static_cast<int>(error.code()));
  }
}

class IsaDeathTest : public testing::Test {
 protected:
  // A child that runs the program from the start: none of the parent's choice is left in it.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(IsaDeathTest, EnvironmentOverrides) {
  EXPECT_EXIT(choose_in_child("avx2"), testing::ExitedWithCode(0), "chose avx2");
}

TEST_F(IsaDeathTest, EmptyMeansTheBest) {
  EXPECT_EXIT(choose_in_child(""), testing::ExitedWithCode(0),
              HasSubstr(std::string("chose ") + name_of(best_isa())));
}

#ifdef TRIREME_EMULATED_AMX
TEST_F(IsaDeathTest, TheEmulationIsOnlyAskedForByName) {
  EXPECT_EXIT(choose_in_child("amx-emulated"), testing::ExitedWithCode(0), "chose amx");
  if (best_isa() < Isa::amx) {
    EXPECT_EXIT(choose_in_child("amx"), testing::ExitedWithCode(2),
                HasSubstr("this processor or system lacks"));
  }
}
#endif

TEST_F(IsaDeathTest, UnknownNameIsTheUsersMistake) {
  EXPECT_EXIT(choose_in_child("sse9"), testing::ExitedWithCode(2),
              HasSubstr("avx2, avx512 or amx"));
}

}  // namespace
}  // namespace trireme::cpu
