// Tests that whatever happens to a run, saves survive, it reports how it ended, and can continue.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "checkpoint/layout.h"
#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class NothingLost : public Workspace {
 protected:
  void SetUp() override { prepare_data(); }

  nlohmann::json status(const std::string& dir) const {
    return nlohmann::json::parse(contents(folder_ / dir / "status.json"), nullptr, false);
  }
  std::string log(const std::string& dir) const { return contents(folder_ / dir / "log.txt"); }
  std::string newest(const std::string& dir) const {
    const auto found = find_checkpoint(folder_ / dir);
    return found ? found->folder.filename().string() : "";
  }
  void damage(const std::string& file) const {
    std::fstream shard(path(file), std::ios::in | std::ios::out | std::ios::binary);
    shard.seekp(-1, std::ios::end);
    const char other = static_cast<char>(shard.peek() ^ 1);
    shard.seekp(-1, std::ios::end);
    shard.put(other);
  }
  Program::Environment with_library(const Program::Environment& more) const {
    Program::Environment all = more;
    all.emplace_back("LD_PRELOAD", TRIREME_TEST_FILES);
    return all;
  }
};

// With | head -1, the run continues without its console.
TEST_F(NothingLost, AReaderThatHasGoneDoesNotEndTheRun) {
  const std::string command = "bash -c '" TRIREME_BINARY " train " + path("run.toml") +
                              " run.dir=" + path("run") +
                              " 2>&1 | head -1 > /dev/null; exit ${PIPESTATUS[0]}'";
  const int status_code = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status_code), 0);
  EXPECT_EQ(newest("run"), "step-00000030");
  EXPECT_THAT(log("run"), HasSubstr("done at step 30"));
}

// With | tee and Ctrl-C, the reader dies first; the run saves but cannot report it.
TEST_F(NothingLost, AnInterruptWithoutAReaderSaves) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  Program program(train_arguments("run", {"train.iters=100000", "checkpoint.interval=0",
                                          "train.eval_iters=0", "train.log_interval=1"}),
                  path("pipe"));
  program.runs_until([&] { return metrics("run").size() >= 500; });
  ::close(reader);
  program.kill(SIGINT);
  fs::remove(path("pipe"));
  EXPECT_EQ(program.wait().code, 3);
  const auto json = status("run");
  EXPECT_EQ(json.value("state", ""), "interrupted");
  EXPECT_EQ(newest("run"), step_folder(json.value("saved_step", 0)));
  EXPECT_THAT(log("run"), AllOf(HasSubstr("saved "), HasSubstr("stopped at step")));
}

TEST_F(NothingLost, TheStatusTellsDoneFromMoreToDo) {
  const Outcome stopped = train("run", {"train.exit_interval=7"});
  EXPECT_EQ(stopped.code, 0) << stopped.out;
  EXPECT_THAT(stopped.out, Not(HasSubstr("interrupted")));
  EXPECT_EQ(status("run").value("state", ""), "stopped");
  EXPECT_EQ(status("run").value("step", 0), 7);
  EXPECT_EQ(status("run").value("steps", 0), 30);
  EXPECT_EQ(status("run").value("saved_step", 0), 7);
  EXPECT_EQ(status("run").value("reason", ""), "train.exit_interval");
  ASSERT_EQ(train("run").code, 0);
  EXPECT_EQ(status("run").value("state", ""), "done");
  EXPECT_EQ(status("run").value("step", 0), 30);
  const Outcome again = train("run");
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, HasSubstr("nothing to do"));
  EXPECT_EQ(status("run").value("state", ""), "done");
  ASSERT_EQ(train("bad", {"run.precision=fp32", "optimizer.lr=1e30", "optimizer.clip_grad=0"}).code,
            1);
  EXPECT_EQ(status("bad").value("state", ""), "failed");
  EXPECT_THAT(status("bad").value("reason", ""), HasSubstr("not finite"));
  EXPECT_THAT(log("bad"), HasSubstr("not finite"));
}

// ENOSYS is the error of Lustre mounted without its lock option.
TEST_F(NothingLost, WithoutLocksTheStatusKeepsASecondJobOut) {
  const Program::Environment no_locks = with_library({{"TRIREME_TEST_FLOCK", "38"}});
  Program first(train_arguments("run", {"train.iters=1000000", "checkpoint.interval=0"}),
                path("first.txt"), no_locks);
  first.runs_until([&] { return metrics("run").size() >= 200; });
  const Outcome second = train("run", {}, no_locks);
  EXPECT_EQ(second.code, 2) << second.out;
  EXPECT_THAT(second.out, AllOf(HasSubstr("cannot lock"), HasSubstr("is training in")));
  first.kill(SIGKILL);
  first.wait();
  EXPECT_THAT(contents(path("first.txt")),
              HasSubstr("': Function not implemented; the file system"));
  const Outcome next = train("run", {}, no_locks);
  EXPECT_EQ(next.code, 0) << next.out;
}

TEST_F(NothingLost, AFullDiskForLogsIsAWarning) {
  fs::create_directory(path("run"));
  for (const char* file : {"metrics.jsonl", "timings.jsonl", "log.txt"})
    fs::create_symlink("/dev/full", folder_ / "run" / file);
  const Outcome outcome = train("run");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("warning: cannot write"), HasSubstr("No space left"),
                                 HasSubstr("done at step 30")));
  EXPECT_EQ(newest("run"), "step-00000030");
}

TEST_F(NothingLost, ADamagedCheckpointIsNamedAndFallenBackFrom) {
  ASSERT_EQ(train("whole").code, 0);
  ASSERT_EQ(train("run", {"train.exit_interval=20"}).code, 0);
  damage("run/checkpoints/step-00000020/shard-00000.safetensors");
  const Outcome refused = train("run");
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_THAT(refused.out,
              AllOf(HasSubstr("step-00000020"), HasSubstr("does not match its checksum"),
                    HasSubstr("the newest sound one is"), HasSubstr("step-00000018"),
                    HasSubstr("checkpoint.fallback")));
  const Outcome resumed = train("run", {"checkpoint.fallback=true"});
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, AllOf(HasSubstr("falling back to"), HasSubstr("at step 18")));
  EXPECT_EQ(metrics("run"), metrics("whole"));
}

TEST_F(NothingLost, FallsBackFromALatestThatSaysNothing) {
  ASSERT_EQ(train("run", {"train.exit_interval=20"}).code, 0);
  write("run/checkpoints/latest", "");
  EXPECT_EQ(train("run").code, 2);
  const Outcome resumed = train("run", {"checkpoint.fallback=true"});
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, HasSubstr("at step 20"));
}

// The process is killed after the first of two renames that replace a checkpoint where names cannot
// be exchanged. The step is saved again because `latest` was lost.
TEST_F(NothingLost, AKillBetweenTheTwoRenames) {
  const std::vector<std::string> more = {"checkpoint.interval=10", "checkpoint.keep=0"};
  ASSERT_EQ(train("whole", more).code, 0);
  ASSERT_EQ(
      train("run", {"checkpoint.interval=10", "checkpoint.keep=0", "train.exit_interval=20"}).code,
      0);
  write("run/checkpoints/latest", "step-00000010\n");
  const Outcome killed =
      train("run", more,
            with_library({{"TRIREME_TEST_NO_EXCHANGE", "1"},
                          {"TRIREME_TEST_KILL_RENAME", "/step-00000020.old.tmp"}}));
  EXPECT_EQ(killed.code, -SIGKILL) << killed.out;
  EXPECT_FALSE(fs::exists(path("run/checkpoints/step-00000020")));
  write("run/checkpoints/latest", "step-00000020\n");
  const Outcome resumed = train("run", more);
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, AllOf(HasSubstr("restored "), HasSubstr("at step 20")));
  EXPECT_EQ(metrics("run"), metrics("whole"));
  EXPECT_THAT(partial_folders(path("run/checkpoints")), testing::IsEmpty());
}

TEST_F(NothingLost, FoldersAreSyncedUpToWhatWasMade) {
  ASSERT_EQ(train("new/deep/run", {"train.iters=4", "train.eval_iters=0"},
                  with_library({{"TRIREME_TEST_FSYNC_LOG", path("synced")}}))
                .code,
            0);
  const std::string synced = contents(folder_ / "synced");
  const std::string folder = fs::canonical(folder_).string();
  for (const char* made : {"", "/new", "/new/deep", "/new/deep/run"})
    EXPECT_THAT(synced, HasSubstr(folder + made + "\n"));
}

TEST_F(NothingLost, OneRunAtATimeUsesAFolder) {
  Program first(train_arguments("run", {"train.iters=100000"}), path("first.txt"));
  first.runs_until([&] { return !metrics("run").empty(); });
  const Outcome second = train("run");
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.out, HasSubstr("another process is training in"));
  first.kill(SIGTERM);
  EXPECT_EQ(first.wait().code, 3);
  EXPECT_EQ(status("run").value("state", ""), "interrupted");
}

TEST_F(NothingLost, CheckpointsOfOtherSystemsAreNotIgnored) {
  fs::create_directories(path("mg/iter_0001000/mp_rank_00"));
  write("mg/iter_0001000/mp_rank_00/model_optim_rng.pt", "x");
  write("mg/latest_checkpointed_iteration.txt", "1000");
  for (const std::string& setting : {"run.dir=" + path("mg"), "checkpoint.load=" + path("mg"),
                                     "checkpoint.load=" + path("mg/iter_0001000")}) {
    const Outcome outcome = train("run", {setting});
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("a Megatron checkpoint"), HasSubstr("trireme convert")));
  }
  EXPECT_FALSE(fs::exists(path("run")));
  EXPECT_THAT(run({"inspect", path("mg")}).out, HasSubstr("iter_0001000/mp_rank_00"));
}

TEST_F(NothingLost, TheProcessesOfTorchrunDoNotTrainAlone) {
  const Outcome outcome =
      train("run", {}, {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("WORLD_SIZE=4"), HasSubstr("mpirun -n 4")));
}

class Loading : public NothingLost {};

TEST_F(Loading, AnotherRunGivesWeightsOrEverything) {
  ASSERT_EQ(train("whole").code, 0);
  ASSERT_EQ(train("first", {"train.exit_interval=10"}).code, 0);
  // Full state: identical bits from there on.
  const Outcome on = train("second", {"checkpoint.load=" + path("first")});
  EXPECT_EQ(on.code, 0) << on.out;
  EXPECT_THAT(on.out, HasSubstr("at step 10"));
  const std::string whole = metrics("whole");
  EXPECT_EQ(metrics("second"), whole.substr(whole.find("{\"step\": 11,")));
  // Weights only: counters and schedules start at zero, and the learned weights are kept.
  const Outcome tuned =
      train("tuned", {"checkpoint.load=" + path("whole"), "checkpoint.finetune=true",
                      "train.iters=1", "optimizer.warmup_iters=0"});
  EXPECT_EQ(tuned.code, 0) << tuned.out;
  EXPECT_THAT(tuned.out, HasSubstr("counters start at zero"));
  const auto loss = [&](const std::string& dir) {
    const std::string text = metrics(dir);
    return std::stod(text.substr(text.find("\"loss\": ") + 8));
  };
  EXPECT_THAT(metrics("tuned"), HasSubstr("{\"step\": 1,"));
  EXPECT_LT(loss("tuned"), loss("whole") - 0.5);
  // Without optimizer states: the counters continue, the first loss is identical, later losses
  // differ.
  const Outcome fresh =
      train("fresh", {"checkpoint.load=" + path("first"), "checkpoint.load_optimizer=false"});
  EXPECT_EQ(fresh.code, 0) << fresh.out;
  EXPECT_EQ(loss("fresh"), loss("second"));
  EXPECT_NE(metrics("fresh"), metrics("second"));
  EXPECT_EQ(train("none", {"checkpoint.load=" + path("nowhere")}).code, 2);
}

TEST_F(Loading, WeightsWithoutStatesAreNotAResume) {
  ASSERT_EQ(train("run", {"train.exit_interval=4"}).code, 0);
  ASSERT_EQ(run({"convert", "--to", "hf", path("run"), path("hf")}).code, 0);
  ASSERT_EQ(run({"convert", "--from", "hf", path("hf"), path("weights")}).code, 0);
  const Outcome refused = train("on", {"checkpoint.load=" + path("weights")});
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_THAT(refused.out, AllOf(HasSubstr("without the optimizer's states"),
                                 HasSubstr("checkpoint.finetune = true")));
  const Outcome tuned =
      train("on", {"checkpoint.load=" + path("weights"), "checkpoint.finetune=true",
                   "train.iters=2", "optimizer.warmup_iters=0"});
  EXPECT_EQ(tuned.code, 0) << tuned.out;
}

TEST_F(Loading, StatesOfAnotherOptimizerAreNotTaken) {
  ASSERT_EQ(train("run", {"train.exit_interval=4"}).code, 0);
  const Outcome refused = train("run", {"optimizer.name=muon"});
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_THAT(refused.out, AllOf(HasSubstr("holds the states of optimizer.name = \"adamw\""),
                                 HasSubstr("checkpoint.load_optimizer = false")));
  EXPECT_EQ(train("run", {"optimizer.name=adam", "train.exit_interval=5"}).code, 0);
  const Outcome weights = train("run", {"optimizer.name=muon", "checkpoint.load_optimizer=false"});
  EXPECT_EQ(weights.code, 0) << weights.out;
}

TEST_F(Loading, NumbersThatAreNotFiniteMayBeSkipped) {
  const std::vector<std::string> wild = {"run.precision=fp32", "optimizer.lr=1e30",
                                         "optimizer.clip_grad=0", "train.iters=6",
                                         "train.eval_iters=0"};
  EXPECT_EQ(train("strict", wild).code, 1);
  std::vector<std::string> lax = wild;
  lax.push_back("train.check_nan=false");
  const Outcome outcome = train("lax", lax);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(metrics("lax"), AllOf(HasSubstr("{\"step\": 6,"), HasSubstr("\"loss\": null")));
}

TEST_F(Loading, TracesTheStepsThatAreNamed) {
  ASSERT_EQ(train("run", {"train.trace_steps=[2,4]", "train.iters=6"}).code, 0);
  const auto json = nlohmann::json::parse(contents(folder_ / "run/trace.json"), nullptr, false);
  ASSERT_TRUE(json.is_array());
  EXPECT_GT(json.size(), 10u);
  for (const auto& event : json) EXPECT_TRUE(event.contains("name"));
}

}  // namespace
}  // namespace trireme::testing_cli
