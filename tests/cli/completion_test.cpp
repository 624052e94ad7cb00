// Tests that completions and the manual page cover every command, flag and key.
#include <gmock/gmock.h>

#include <cstdlib>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Completion : public Workspace {
 protected:
  // Returns what bash offers with the cursor right after `current`.
  std::string complete(const std::string& words, const std::string& current) const {
    write("completion.bash", run({"completion", "bash"}).out);
    write("ask.sh",
          "source " + path("completion.bash") + "\nCOMP_WORDS=(" + words +
              " \"$1\")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\ncompopt() { :; }\n_trireme\n"
              "printf '%s\\n' \"${COMPREPLY[@]}\"\n");
    const int status = std::system(
        ("bash " + path("ask.sh") + " '" + current + "' >" + path("offered") + " 2>&1").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return contents(path("offered"));
  }
};

TEST_F(Completion, OfBashOffersCommandsFlagsAndKeys) {
  EXPECT_EQ(complete("trireme", "pla"), "plan\n");
  EXPECT_EQ(complete("trireme train", "--npr"), "--nproc\n");
  EXPECT_EQ(complete("trireme train x.toml", "parallel.seq"), "parallel.sequence_parallel=\n");
  EXPECT_THAT(complete("trireme data", "m"), HasSubstr("merge"));
  EXPECT_THAT(complete("trireme data merge", "--"), HasSubstr("--output-prefix"));
  EXPECT_THAT(complete("trireme data merge", ""), Not(HasSubstr("parallel.tp")));
}

TEST_F(Completion, OfEveryShellNamesEveryCommand) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome script = run({"completion", shell});
    ASSERT_EQ(script.code, 0);
    for (const char* word : {"pretrain-gpt", "import-args", "nproc", "optimizer.lr="})
      EXPECT_THAT(script.out, HasSubstr(word)) << shell;
  }
  EXPECT_EQ(run({"completion", "tcsh"}).code, 2);
}

TEST_F(Completion, ManualHasEveryCommandWithItsFlags) {
  const Outcome page = run({"man"});
  ASSERT_EQ(page.code, 0);
  EXPECT_THAT(page.out, HasSubstr(".SS trireme data merge\n"));
  EXPECT_THAT(page.out, HasSubstr("\\fB\\-\\-nproc\\fR"));
}

}  // namespace
}  // namespace trireme::testing_cli
