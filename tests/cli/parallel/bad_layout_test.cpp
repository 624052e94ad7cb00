// Tests of impossible layouts: refused before anything else, with one message that says what would
// work.
#include <csignal>

#include "jobs.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class BadLayout : public Jobs {
 protected:
  void expect_refused(const Layout& layout, const std::string& what, const std::string& instead) {
    SCOPED_TRACE(layout.text());
    const Outcome outcome = train_on("run", layout);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(what));
    EXPECT_THAT(outcome.out, HasSubstr(instead));
    EXPECT_EQ(count_of(outcome.out, "trireme: "), 1) << outcome.out;
    EXPECT_EQ(count_of(outcome.out, "\n"), 1) << outcome.out;  // no output of mpirun around it
    EXPECT_FALSE(fs::exists(folder_ / "run"));
  }
};

TEST_F(BadLayout, DegreesThatDoNotFitTheRanks) {
  expect_refused({8, "parallel.tp=3"}, "parallel.tp = 3", "tp can be 1, 2, 4 or 8");
  expect_refused({8, "parallel.tp=4 parallel.pp=4"}, "parallel.pp = 4", "pp can be 1 or 2");
  expect_refused({6, "parallel.pp=4"}, "parallel.pp = 4", "pp can be 2, 3 or 6");
  expect_refused({8, "parallel.pp=2 parallel.zero=1 parallel.dp_replicate=3"}, "dp_replicate = 3",
                 "it can be 1, 2 or 4");
  expect_refused({2, "parallel.cp=2 model.seq_length=18"}, "parallel.cp = 2",
                 "cp can be 1, 3 or 9");
}

TEST_F(BadLayout, ExpertsThatCannotBeDealtOut) {
  const std::string experts = "model.family=llama moe.num_experts=6 ";
  expect_refused({2, "parallel.ep=2"}, "parallel.ep = 2", "moe.num_experts");
  expect_refused({8, experts + "parallel.ep=4"}, "moe.num_experts = 6", "ep can be 2, 3 or 6");
  expect_refused({4, experts + "parallel.ep=3"}, "parallel.ep = 3", "ep can be 1 or 2");
  expect_refused({4, experts + "parallel.ep=2 parallel.tp=2"}, "parallel.tp = 2",
                 "parallel.sequence_parallel = true");
  expect_refused({4, experts + "parallel.ep=2 parallel.cp=2 moe.capacity_factor=1.5"},
                 "parallel.cp = 2", "capacity_factor = 0");
  expect_refused({4, experts + "parallel.ep=2 parallel.zero=1 parallel.dp_replicate=4"},
                 "dp_replicate = 4", "ep can be 1");
  expect_refused({2, experts + "parallel.ep=2 parallel.numerics=exact moe.ffn_hidden_size=20"},
                 "parallel.ep = 2", "a multiple of 8");
  expect_refused({2, "parallel.cp=2 parallel.cp_attention=ring"}, "model.attention_dropout = 0.1",
                 "chunks of a multiple of 8 positions, but 16 / 4 = 4");
}

TEST_F(BadLayout, StagesThatDoNotFitTheLayers) {
  expect_refused({3, "parallel.pp=3"}, "model.num_layers = 8", "2, 4 or 8");
  expect_refused({8, "parallel.pp=8 parallel.schedule=zbv"}, "16 stages", "4 or 8");
  expect_refused({2, "parallel.pp=2 parallel.stage_layers=[4,3]"}, "stage_layers = [4, 3]",
                 "model.num_layers = 8");
  expect_refused({2, "parallel.pp=2 parallel.stage_layers=[4,2,2]"}, "3 stages", "2 stages");
  expect_refused({2, "parallel.pp=2 parallel.stage_layers=[8,0]"}, "[8, 0]", "at least 1");
  expect_refused({2, "parallel.pp=2 parallel.schedule=interleaved"}, "virtual_stages = 1",
                 "2 or more");
  expect_refused({2, "parallel.pp=2 parallel.virtual_stages=2"}, "virtual_stages = 2",
                 "only interleaved");
  expect_refused({2, "parallel.pp=2 parallel.schedule=zb2p"}, "schedule", "zb1p");
}

TEST_F(BadLayout, BatchesThatDoNotDivide) {
  expect_refused({2, "train.global_batch_size=7"}, "global_batch_size = 7", "6 or 8");
}

TEST_F(BadLayout, HeadsAndRowsThatTensorRanksCannotShare) {
  expect_refused({8, "parallel.tp=8"}, "model.num_heads = 4", "tp can be 2 or 4");
  expect_refused({6,
                  "parallel.tp=6 model.family=llama model.num_heads=12 model.num_kv_heads=4 "
                  "model.hidden_size=48 model.ffn_hidden_size=96"},
                 "model.num_kv_heads = 4", "tp can be");
  expect_refused({4, "parallel.tp=4 parallel.sequence_parallel=true model.seq_length=18"},
                 "model.seq_length = 18", "tp can be 2, 3, 6 or 9");
  expect_refused({2, "parallel.numerics=exact run.precision=fp64"}, "numerics", "fast");
}

TEST_F(BadLayout, WhereThereIsNoMpirun) {
  const Outcome outcome = Program(job_arguments("run", {2, ""}), path("output.txt"),
                                  {{"TRIREME_MPIRUN", path("mpirun")}})
                              .wait();
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("cannot start " + path("mpirun")));
  EXPECT_THAT(outcome.out, HasSubstr("openmpi-bin"));
}

// mpirun may wait forever for processes that are gone, or never start them.
TEST_F(BadLayout, AnMpirunThatHangsIsEnded) {
  const auto outcome_with = [&](const std::string& script) {
    write("mpirun", "#!/bin/sh\n" + script);
    fs::permissions(folder_ / "mpirun", fs::perms::owner_all);
    Program program(job_arguments("run", {2, "train.iters=2 optimizer.warmup_iters=1"}),
                    path("output.txt"),
                    {{"TRIREME_MPIRUN", path("mpirun")},
                     {"TRIREME_LAUNCHER_WAIT", "1"},
                     {"TRIREME_THREADS", "1"}});
    return wait_for(program, 60);
  };
  const std::string said = "trireme: mpirun has been running for ";
  const Outcome unstarted = outcome_with("trap '' TERM; exec sleep 1000\n");
  EXPECT_NE(unstarted.code, 0);
  EXPECT_THAT(unstarted.out, HasSubstr(said));
  const Outcome killed = outcome_with("shift 2; \"$@\" & kill -9 $!; wait; exec sleep 1000\n");
  EXPECT_NE(killed.code, 0);
  EXPECT_THAT(killed.out, HasSubstr(said));
  const Outcome done = outcome_with("shift 2; \"$@\"; exec sleep 1000\n");
  EXPECT_THAT(done.out, HasSubstr(said));
  EXPECT_THAT(read("run/status.json"), HasSubstr("\"done\""));
}

// If several MPIs are installed, the first mpirun may belong to a different one than the build.
TEST_F(BadLayout, AForeignMpirunBeforeTheRightOneIsNotTaken) {
  fs::create_directory(folder_ / "bin");
  write("bin/mpirun", "#!/bin/sh\necho taken\n");
  fs::permissions(folder_ / "bin/mpirun", fs::perms::owner_all);
  const Outcome outcome =
      Program(job_arguments("run", {2, "train.iters=2 optimizer.warmup_iters=1"}),
              path("output.txt"),
              {{"PATH", path("bin") + ":" + std::getenv("PATH")}, {"TRIREME_THREADS", "1"}})
          .wait();
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, Not(HasSubstr("taken")));
}

// nohup ignores SIGHUP. Otherwise it ends a job whose ranks do not listen yet, like any program.
TEST_F(BadLayout, SignalsThatWereIgnoredStaySo) {
  write("mpirun",
        "#!/bin/sh\nsleep 0.3\n"
        "for i in 1 2 3; do kill -HUP $PPID; sleep 0.05; done\n");
  fs::permissions(folder_ / "mpirun", fs::perms::owner_all);
  const auto code_with = [&](sighandler_t hangup) {
    const sighandler_t before = std::signal(SIGHUP, hangup);  // inherited
    Program program(job_arguments("run", {2, ""}), path("output.txt"),
                    {{"TRIREME_MPIRUN", path("mpirun")}});
    std::signal(SIGHUP, before);
    return wait_for(program, 60).code;
  };
  EXPECT_EQ(code_with(SIG_IGN), 0);
  EXPECT_EQ(code_with(SIG_DFL), -1);  // killed by the signal
}

// With three of eight processors, a process uses three threads, not the two of the smallest part.
TEST_F(BadLayout, ThreadsAreLeftToThePartOfEachProcess) {
  write("mpirun", "#!/bin/sh\necho threads ${TRIREME_THREADS-free}\n");
  fs::permissions(folder_ / "mpirun", fs::perms::owner_all);
  const auto told = [&](const Layout& layout) {
    return Program(job_arguments("run", layout), path("output.txt"),
                   {{"TRIREME_MPIRUN", path("mpirun")}})
        .wait()
        .out;
  };
  const unsigned processors = std::thread::hardware_concurrency();
  if (processors < 2 || processors >= 64) GTEST_SKIP() << "needs 2 to 63 processors";
  EXPECT_EQ(told({2, ""}), "threads free\n");
  EXPECT_EQ(told({64, "train.global_batch_size=64"}), "threads 1\n");
}

TEST_F(BadLayout, UnderALauncherThatHasStartedRanksAlready) {
  const Outcome outcome = Program(job_arguments("run", {2, ""}), path("output.txt"),
                                  {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}})
                              .wait();
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("remove --nproc"));
}

// Without --nproc all ranks find the same error: only one of them reports it.
TEST_F(BadLayout, UnderMpirun) {
  const std::string command = "timeout -s KILL 60 " + mpirun() + " -n 4 " TRIREME_BINARY " train " +
                              path("run.toml") + " run.dir=" + path("run") + " parallel.tp=3 > " +
                              path("out") + " 2>&1";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2) << read("out");
  EXPECT_EQ(count_of(read("out"), "trireme: "), 1) << read("out");
  EXPECT_THAT(read("out"), HasSubstr("tp can be 1, 2 or 4"));
}

}  // namespace
}  // namespace trireme::testing_cli
