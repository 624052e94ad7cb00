// Mistakes that were planted on purpose: the emulated GPU stops at each of them. Races need a build
// with ThreadSanitizer, and are found there whatever order happened to run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include <sys/wait.h>

namespace trireme {
namespace {

struct Outcome {
  int status = 0;
  std::string text;
};

Outcome run(const std::string& arguments) {
  Outcome outcome;
  std::FILE* const out = ::popen((TRIREME_PLANTED " " + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> piece;
  while (const std::size_t bytes = std::fread(piece.data(), 1, piece.size(), out))
    outcome.text.append(piece.data(), bytes);
  outcome.status = ::pclose(out);
  return outcome;
}

struct Mistake {
  const char* name;
  const char* message;  // null: a race
};

class Planted : public ::testing::TestWithParam<Mistake> {};

TEST_P(Planted, IsFound) {
  const Outcome outcome = run("'" + std::string(GetParam().name) + "'");
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
    const Outcome outcome = run(std::string("none") + order);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, ::testing::HasSubstr("right"));
  }
}

}  // namespace
}  // namespace trireme
