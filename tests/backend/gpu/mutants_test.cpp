// Tests that bugs planted in the kernels' source (mutants/CMakeLists.txt) are detected: this
// program's tests run on a GPU with one of them, and must fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <string>

#include "backend/gpu/command.h"

namespace trireme {
namespace {

struct Mutant {
  const char* name;
  const char* test;  // the test that detects it
};

class Mutants : public ::testing::TestWithParam<Mutant> {};

TEST_P(Mutants, IsFound) {
#if !TRIREME_MUTANTS
  GTEST_SKIP() << "this build has no mutants";
#endif
  const std::string test = std::string(GetParam().test) + "/emulated";
  const std::string text =
      run_command("TRIREME_GPU_UNDER_TEST=mutant_" + std::string(GetParam().name) + " /proc/" +
                  std::to_string(::getpid()) + "/exe --gtest_filter='" + test + "'")
          .text;
  // The program may crash after its first failure.
  EXPECT_THAT(text, ::testing::AllOf(::testing::HasSubstr("[ RUN      ] " + test),
                                     ::testing::HasSubstr(": Failure\n")));
}

INSTANTIATE_TEST_SUITE_P(
    Planted, Mutants,
    ::testing::Values(Mutant{"frozen_scalar", "Waves/OptimizerStep.ReadsTheScalarsOfEachStep"},
                      Mutant{"wrong_leading_dimension", "Maps/OneProduct.OfOddSizesEqualsTheCpus"},
                      Mutant{"off_by_one_tile", "Maps/OneProduct.OfOddSizesEqualsTheCpus"},
                      Mutant{"forgotten_overflow_count",
                             "Waves/State.CountsWhatFixedPointCannotHold"}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace trireme
