// Tests of checkpoints on node-local disks: a run resumes from them if all are present, and from
// the shared ones otherwise.
#include "faults.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class LocalCheckpointsOfRuns : public Faults {
 protected:
  const Layout two_{2, "parallel.zero=1"};
  std::string settings() const {
    return "train.iters=14 train.eval_iters=0 checkpoint.interval=5 checkpoint.local_interval=2 "
           "checkpoint.local_dir=" +
           path("local");
  }
  // Returns the folders of the ranks.
  std::vector<fs::path> ranks() const {
    std::vector<fs::path> found;
    for (const auto& run : fs::directory_iterator(folder_ / "local"))
      for (const auto& rank : fs::directory_iterator(run))
        if (rank.is_directory()) found.push_back(rank.path());
    std::ranges::sort(found);
    return found;
  }
  // Kills rank 1 once step `after` is done.
  void kill_after(const std::string& dir, std::size_t after) const {
    Program program = start(dir, two_, settings() + " train.iters=30");
    program.runs_until([&] { return values_of(metrics(dir), "loss").size() >= after; });
    const auto ranks = ranks_of(path(dir));
    if (const auto found = ranks.find(1); found != ranks.end()) ::kill(found->second, SIGKILL);
    wait_for(program, 60);
  }
};

TEST_F(LocalCheckpointsOfRuns, GoOnAfterTheNewestThatAllRanksHave) {
  ASSERT_EQ(train_on("whole", two_, "train.iters=14 train.eval_iters=0").code, 0);
  ASSERT_EQ(train_on("run", two_, settings() + " train.exit_interval=9").code, 0);
  // Step 9 is saved in the run's folder because the run stopped there: undo that save.
  fs::remove_all(folder_ / "run/checkpoints/step-00000009");
  write("run/checkpoints/latest", "step-00000005\n");
  ASSERT_EQ(ranks().size(), 2u);
  const fs::path kept = folder_ / "kept";
  fs::create_directory(kept);
  fs::copy(folder_ / "run", kept / "run", fs::copy_options::recursive);
  fs::copy(folder_ / "local", kept / "local", fs::copy_options::recursive);
  const auto again = [&] {
    fs::remove_all(folder_ / "run");
    fs::remove_all(folder_ / "local");
    fs::copy(kept / "run", folder_ / "run", fs::copy_options::recursive);
    fs::copy(kept / "local", folder_ / "local", fs::copy_options::recursive);
  };
  const auto resumes_from = [&](const std::string& place) {
    const Outcome outcome = train_on("run", two_, settings());
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(place));
    EXPECT_EQ(metrics("run"), metrics("whole"));
    EXPECT_EQ(first_difference(path("run"), path("whole")), "");
  };
  resumes_from("resumed from the local checkpoints in '" + path("local") + "' at step 8");

  again();  // rank 1 was killed while it saved step 8
  fs::rename(ranks()[1] / "step-00000008", ranks()[1] / "step-00000008.tmp");
  resumes_from("' at step 6");

  again();  // a byte of rank 0's newest checkpoint is changed
  {
    std::fstream shard(ranks()[0] / "step-00000008/shard-00000.safetensors",
                       std::ios::in | std::ios::out | std::ios::binary);
    shard.seekp(-3, std::ios::end);
    shard.put('\x55');
  }
  resumes_from("' at step 6");

  again();  // a node was replaced
  fs::remove_all(ranks()[1]);
  resumes_from("checkpoints/step-00000005 at step 5");

  again();  // the shared checkpoints are gone: the user wants to start over
  fs::remove_all(folder_ / "run/checkpoints");
  EXPECT_THAT(train_on("run", two_, settings()).out, Not(HasSubstr("resumed from")));
}

TEST_F(LocalCheckpointsOfRuns, AreOfThisLayoutAndThisRunAlone) {
  ASSERT_EQ(train_on("run", two_, settings() + " train.exit_interval=9").code, 0);
  fs::remove_all(folder_ / "run/checkpoints/step-00000009");
  write("run/checkpoints/latest", "step-00000005\n");
  const Outcome other = train_on("run", {2, "parallel.tp=2"}, settings());
  EXPECT_EQ(other.code, 0) << other.out;
  EXPECT_THAT(other.out, HasSubstr("at step 5"));
  fs::remove_all(folder_ / "run");
  const Outcome restarted = train_on("run", two_, settings());
  EXPECT_EQ(restarted.code, 0) << restarted.out;
  EXPECT_THAT(restarted.out, Not(HasSubstr("resumed")));
}

// The run restarts from scratch in the same folder with another learning rate: it saves its own
// step 5, and nothing that the old run saved after its step 5 counts.
TEST_F(LocalCheckpointsOfRuns, OfABranchThatWasLeftAreForgotten) {
  const std::string other = " optimizer.lr=2e-4 optimizer.min_lr=0";
  ASSERT_EQ(train_on("whole", two_, "train.iters=14 train.eval_iters=0" + other).code, 0);
  ASSERT_EQ(train_on("run", two_, settings() + " train.exit_interval=9").code, 0);
  fs::remove_all(folder_ / "run/checkpoints");
  ASSERT_EQ(train_on("run", two_, settings() + other + " train.exit_interval=5").code, 0);
  const Outcome outcome = train_on("run", two_, settings() + other);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("checkpoints/step-00000005 at step 5"));
  EXPECT_EQ(first_difference(path("run"), path("whole")), "");
}

// Each start dies in its fourth step, one local checkpoint further than the previous one.
TEST_F(LocalCheckpointsOfRuns, AreProgressToTheSupervisor) {
  const std::string eight = settings() + " train.iters=8 checkpoint.interval=100";
  const auto aimed = [&](const std::string& dir, const std::string& aim) {
    std::vector<std::string> arguments = job_arguments(dir, two_, eight);
    arguments.insert(arguments.end(), {"--restarts", "1", "--restart-wait", "0"});
    Program program(arguments, path(dir + ".out"),
                    {{"TRIREME_THREADS", "1"},
                     {"OMPI_MCA_odls_base_sigkill_timeout", "0"},
                     {"LD_PRELOAD", TRIREME_TEST_AIM},
                     {"TRIREME_TEST_COUNTS", path("counts")},
                     {"TRIREME_TEST_AIM", aim}});
    return wait_for(program, 60);
  };
  ASSERT_EQ(aimed("whole", "0 none 0 0").code, 0);
  const long products = std::strtol(read("counts.1").c_str(), nullptr, 10) / 8;
  const Outcome outcome = aimed("run", "1 product " + std::to_string(7 * products / 2) + " 9");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  for (const char* from : {"restart 1 from step 2 of", "restart 2 from step 4 of",
                           "restart 3 from step 6 of the local checkpoints, or from the beginning"})
    EXPECT_THAT(read("run/log.txt"), HasSubstr(from));
  EXPECT_EQ(metrics("run"), metrics("whole"));
}

TEST_F(LocalCheckpointsOfRuns, SurviveAKill) {
  ASSERT_EQ(train_on("whole", two_, "train.iters=30 train.eval_iters=0").code, 0);
  std::size_t after = 4;
  for (int i = 0; i < 3; ++i, after += 3) kill_after("run", after);
  const Outcome outcome = train_on("run", two_, settings() + " train.iters=30");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(metrics("run"), metrics("whole"));
}

}  // namespace
}  // namespace trireme::testing_cli
