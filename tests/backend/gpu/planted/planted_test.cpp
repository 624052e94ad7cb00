// Tests that the emulated GPU stops at each deliberate mistake. Races need a build with
// ThreadSanitizer, which finds them whatever order threads happened to run in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backend/gpu/command.h"

namespace trireme {
namespace {

CommandOutcome run(const std::string& arguments) {
  return run_command(TRIREME_PLANTED " " + arguments);
}

struct Mistake {
  const char* name;
  const char* message;  // null for a race
};

class Planted : public ::testing::TestWithParam<Mistake> {};

TEST_P(Planted, IsFound) {
  const CommandOutcome outcome = run("'" + std::string(GetParam().name) + "'");
  if (outcome.text.find("no protection keys") != std::string::npos)
    GTEST_SKIP() << "this processor has no protection keys";
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text,
              ::testing::HasSubstr(GetParam().message ? GetParam().message : "data race"));
}

std::string name_of_mistake(const ::testing::TestParamInfo<Mistake>& instance) {
  std::string name = instance.param.name;
  for (char& c : name)
    if (c == ' ') c = '_';
  return name;
}

#if defined(__SANITIZE_THREAD__)
INSTANTIATE_TEST_SUITE_P(Races, Planted,
                         ::testing::Values(Mistake{"missing barrier", nullptr},
                                           Mistake{"missing wait", nullptr},
                                           Mistake{"early overwrite", nullptr},
                                           Mistake{"no wait before a collective", nullptr},
                                           Mistake{"no wait after a collective", nullptr},
                                           Mistake{"early read of a mirror", nullptr},
                                           Mistake{"mirror used again", nullptr},
                                           Mistake{"blocks on one address", nullptr}),
                         name_of_mistake);
#endif
INSTANTIATE_TEST_SUITE_P(
    Mistakes, Planted,
    ::testing::Values(Mistake{"barrier not for all", "wait at different barriers"},
                      Mistake{"unaligned load", "an unaligned access"},
                      Mistake{"unwritten shared memory", "a result is NaN"},
                      Mistake{"host touches device memory", "host touched device memory"},
                      Mistake{"pageable copy", "not pinned"}),
    name_of_mistake);

TEST(Emulated, RightProgramsAreRightInEveryOrder) {
  for (const char* order : {"", " 1 1", " 2 7", " 3 99"}) {
    const CommandOutcome outcome = run(std::string("none") + order);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, ::testing::HasSubstr("right"));
  }
}

}  // namespace
}  // namespace trireme
