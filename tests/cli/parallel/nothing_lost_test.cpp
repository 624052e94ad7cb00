// Tests of jobs that are slow to save, suspended, or interrupted in various ways: they save, and
// report how they ended.
#include "faults.h"

namespace trireme::testing_cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const Layout two{2, ""};

class JobsLoseNothing : public Faults {
 protected:
  // Returns every process of the job: the one that was started, mpirun, and the ranks.
  static std::vector<pid_t> processes_of(const std::string& job) {
    std::vector<pid_t> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      if (variable_of(contents(entry.path() / "environ"), "TRIREME_TEST_JOB") == job)
        found.push_back(static_cast<pid_t>(std::stol(name)));
    }
    return found;
  }
  void signal_all(const std::string& dir, int signal) const {
    for (const pid_t process : processes_of(path(dir))) ::kill(process, signal);
  }
  Program start_slow(const std::string& dir, const std::string& more) const {
    return Program(job_arguments(dir, two, more), path(dir + ".out"),
                   {{"TRIREME_THREADS", "1"},
                    {"TRIREME_TEST_JOB", path(dir)},
                    {"LD_PRELOAD", TRIREME_TEST_FILES},
                    {"TRIREME_TEST_FSYNC_MS", "3000"}});
  }
  // Matches output without mpirun's own messages.
  static auto is_clean() {
    return AllOf(Not(HasSubstr("mpirun")), Not(HasSubstr("mpiexec")), Not(HasSubstr("aborted")),
                 Not(HasSubstr("ORTE")), Not(HasSubstr("orte")));
  }
  const std::string long_run_ = "train.iters=100000 train.eval_iters=0 train.timeout_s=30";
};
class SlowJobsLoseNothing : public JobsLoseNothing {};

// Each file of a checkpoint takes longer to sync than any rank may wait for another.
TEST_F(SlowJobsLoseNothing, ASlowSaveDoesNotWakeTheWatchdog) {
  for (const std::string async : {"false", "true"}) {
    Program program =
        start_slow("run" + async,
                   "train.iters=4 train.eval_iters=0 train.timeout_s=2 checkpoint.async=" + async);
    const Outcome outcome = wait_for(program, 600);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("done at step 4"));
    CheckpointReader(path("run" + async)).verify();
  }
}

TEST_F(SlowJobsLoseNothing, AJobThatIsSuspendedGoesOn) {
  Program program = start("run", two, "train.iters=100000 train.eval_iters=0 train.timeout_s=2");
  ASSERT_TRUE(advance(program, "run", 5, 0));
  signal_all("run", SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  signal_all("run", SIGCONT);
  EXPECT_TRUE(advance(program, "run", 5, 0)) << read("run.out");
  program.kill(SIGTERM);
  EXPECT_EQ(wait_for(program, 60).code, 3) << read("run.out");
}

// A disk fails that the run offloads to: there is one message, and the checkpoints are kept.
TEST_F(JobsLoseNothing, ADiskThatFailsUnderWhatIsOffloaded) {
  constexpr const char* activations = "offload.activations=file";
  constexpr const char* parameters = "offload.parameters=file parallel.zero=3 run.precision=bf16";
  for (const auto& [keys, moved, fault, call, what] :
       {std::tuple{activations, "the offloaded activations", "0 write 30 full offloaded", "writing",
                   "No space left on device"},
        {activations, "the offloaded activations", "0 read 30 broken offloaded", "reading",
         "Input/output error"},
        {parameters, "the parameters", "0 write 90 full offloaded", "writing",
         "No space left on device"},
        {parameters, "the parameters", "0 read 90 broken offloaded", "reading",
         "Input/output error"}}) {
    Program program(job_arguments("run", {1, ""},
                                  std::string(keys) + " checkpoint.interval=2 offload.path=" +
                                      path("offloaded") + " train.iters=100000"),
                    path("out"),
                    {{"LD_PRELOAD", TRIREME_TEST_FILE_FAULTS}, {"TRIREME_TEST_FILE_FAULT", fault}});
    const Outcome outcome = wait_for(program, 60);
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr(call), HasSubstr(std::string("iB of ") + moved + " failed"),
                      HasSubstr(what), HasSubstr("the last checkpoint is untouched")));
    EXPECT_EQ(count_of(outcome.out, "offload.path"), 1);
    EXPECT_TRUE(fs::is_empty(path("offloaded")));
    fs::remove_all(path("run"));
  }
}

// systemd and scancel do this.
TEST_F(JobsLoseNothing, ASigtermToEveryProcessSaves) {
  Program program = start("run", two, long_run_);
  ASSERT_TRUE(advance(program, "run", 5, 0));
  signal_all("run", SIGTERM);
  const Outcome outcome = wait_for(program, 60);
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("the same command resumes"), is_clean()));
  EXPECT_EQ(CheckpointReader(path("run")).state().step,
            static_cast<long>(values_of(metrics("run"), "loss").size()));
  EXPECT_THAT(read("run/status.json"), HasSubstr("\"interrupted\""));
}

TEST_F(JobsLoseNothing, AStopAsPlannedIsASuccess) {
  const Outcome outcome = train_on("run", two, long_run_ + " train.exit_interval=3");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("stopped at step 3 of 100000"), is_clean()));
  EXPECT_THAT(read("run/status.json"), HasSubstr("\"stopped\""));
}

// Interrupts come at times from before mpirun exists until after the first steps.
TEST_F(JobsLoseNothing, AnInterruptDuringTheStartIsClean) {
  for (const int wait_ms : {0, 30, 80, 150, 250, 500}) {
    const std::string dir = "run" + std::to_string(wait_ms);
    Program program = start(dir, two, long_run_);
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    program.kill(SIGINT);
    const Outcome outcome = wait_for(program, 60);
    EXPECT_THAT(outcome.code, testing::AnyOf(3, -SIGINT)) << wait_ms << " ms: " << outcome.out;
    EXPECT_THAT(outcome.out, is_clean()) << wait_ms << " ms";
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (!ranks_of(path(dir)).empty() && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // still being killed
    EXPECT_TRUE(ranks_of(path(dir)).empty());
  }
}

// Open MPI's mpirun ends a job whose output has no reader any more.
TEST_F(JobsLoseNothing, AReaderThatHasGoneDoesNotEndTheJob) {
  const std::string command =
      "bash -c 'TRIREME_THREADS=1 timeout 100 " TRIREME_BINARY " train --nproc 2 " +
      path("run.toml") + " run.dir=" + path("run") +
      " train.log_interval=1 2>&1 | head -3 > /dev/null; exit ${PIPESTATUS[0]}'";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(read("run/log.txt"), HasSubstr("done at step 30"));
  EXPECT_EQ(CheckpointReader(path("run")).state().step, 30);
}

}  // namespace
}  // namespace trireme::testing_cli
