// Tests of the silent corruption guard in complete runs: it changes no number, names the rank with
// wrong products, and the run resumes from a sound checkpoint.
#include "jobs.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class Guard : public Jobs {
 protected:
  const std::string settings_ = "train.iters=12 train.eval_interval=6 checkpoint.interval=4";

  std::vector<std::string> lines_of(const std::string& file, const std::string& word) const {
    std::vector<std::string> found;
    std::istringstream lines(read(file));
    for (std::string line; std::getline(lines, line);)
      if (line.find(word) != std::string::npos) found.push_back(line);
    return found;
  }
  // Returns the number of products of rank 1 in a step.
  long products_of_a_step() const {
    Program counted(job_arguments("counted", {2, ""}, settings_ + " train.eval_iters=0"),
                    path("counted.out"),
                    {{"TRIREME_THREADS", "1"},
                     {"LD_PRELOAD", TRIREME_TEST_AIM},
                     {"TRIREME_TEST_COUNTS", path("counts")},
                     {"TRIREME_TEST_AIM", "0 none 0 0"}});
    EXPECT_EQ(wait_for(counted, 600).code, 0);
    return std::strtol(read("counts.1").c_str(), nullptr, 10) / 12;
  }
  // Runs to the end; a bit of a rank's `number`-th product is flipped, once over all starts.
  Outcome run_flipped(const std::string& dir, int rank, long number) const {
    const Layout two{2, "train.guard_interval=3"};
    std::vector<std::string> arguments = job_arguments(dir, two, settings_);
    arguments.insert(arguments.end(), {"--restarts", "2", "--restart-wait", "0"});
    Program program(
        arguments, path(dir + ".out"),
        {{"TRIREME_THREADS", "1"},
         {"LD_PRELOAD", TRIREME_TEST_AIM},
         {"TRIREME_TEST_ONCE", path(dir + ".once")},
         {"TRIREME_TEST_AIM", std::to_string(rank) + " flip " + std::to_string(number) + " 0"}});
    return wait_for(program, 600);
  }
};

TEST_F(Guard, ChangesNoNumber) {
  ASSERT_EQ(train_on("whole", {2, "parallel.zero=1"}, settings_).code, 0);
  const Outcome outcome =
      train_on("guarded", {2, "parallel.zero=1 train.guard_interval=3"}, settings_);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(metrics("guarded"), metrics("whole"));
  EXPECT_EQ(first_difference(path("guarded"), path("whole")), "");
  // The guard runs at steps 3, 6, 9, 12, and before the saves of 4 and 8.
  EXPECT_EQ(lines_of("guarded/timings.jsonl", "guard_seconds").size(), 6u);
}

TEST_F(Guard, NamesTheRankWhoseProductsAreWrongAndGoesOnFromWhatIsSound) {
  ASSERT_EQ(train_on("whole", {2, ""}, settings_).code, 0);
  const long products = products_of_a_step();
  // The products of three steps and the beginning of the first check.
  const Outcome outcome = run_flipped("run", 1, 3 * products + products / 16);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  // The message of the rank that found it; the line about the restart repeats it.
  const auto found = lines_of("run.out", "): silent data corruption detected after step 3: ranks ");
  ASSERT_EQ(found.size(), 1u) << outcome.out;
  EXPECT_THAT(found[0], HasSubstr("computed the same micro-batch with different bits"));
  EXPECT_THAT(
      found[0],
      HasSubstr(
          "This was the first check; nothing has been saved since then, and the run resumes from "
          "the beginning; suspect nodes: "));
  EXPECT_EQ(metrics("run"), metrics("whole"));
  EXPECT_EQ(first_difference(path("run"), path("whole")), "");
}

TEST_F(Guard, SaysWhetherWhatItWasResumedFromWasChecked) {
  const long products = products_of_a_step();
  const auto found_after = [&](const std::string& dir, const std::string& before) {
    EXPECT_EQ(train_on(dir, {2, before}, settings_ + " train.exit_interval=4").code, 0);
    // The products of two steps and the beginning of the check after step 6.
    EXPECT_EQ(run_flipped(dir, 1, 2 * products + products / 16).code, 0);
    return read(dir + ".out");
  };
  EXPECT_THAT(found_after("guarded", "train.guard_interval=3"),
              HasSubstr("The last successful check was after step 4; nothing has been saved "
                        "since then, and the run resumes from step 4"));
  EXPECT_THAT(
      found_after("unguarded", ""),
      HasSubstr("This was the first check; the run resumes from step 4, which was saved without "
                "a check"));
}

}  // namespace
}  // namespace trireme::testing_cli
