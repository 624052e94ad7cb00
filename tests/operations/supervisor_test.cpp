// Tests of the restart loop with small shell scripts that act as runs.
#include "operations/supervisor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "refusal.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

class SupervisorOf : public testing::Test {
 protected:
  SupervisorOf() {
    fs::remove_all(folder_);
    make_folders(folder_);
    write_file_durably(folder_ / "config.toml", "");
  }
  ~SupervisorOf() override { fs::remove_all(folder_); }

  // In the script, $n is the number of the start, from 1, and `save N` writes a checkpoint.
  SupervisedRun run_of(const std::string& script, int restarts = 3) const {
    const std::string before =
        "cd '" + folder_.string() +
        "'; echo >> starts; n=$(wc -l < starts); save() { mkdir -p checkpoints/step-0000000$1; "
        "echo > checkpoints/step-0000000$1/manifest.json; }; ";
    return {{"sh", "-c", before + script}, folder_, {restarts, 0, 0}, "", 0};
  }
  std::string text(const std::string& name) const {
    return fs::exists(folder_ / name) ? read_file(folder_ / name) : "";
  }
  long lines(const std::string& name) const { return std::ranges::count(text(name), '\n'); }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("trireme_supervisor" + std::to_string(::getpid()));
};

TEST_F(SupervisorOf, ARunThatFailsTwiceStartsItThreeTimes) {
  EXPECT_EQ(supervise(run_of("[ $n -gt 2 ]")), 0);
  EXPECT_EQ(lines("starts"), 3);
  EXPECT_EQ(lines("events.jsonl"), 2);
  EXPECT_THAT(text("events.jsonl"), HasSubstr("\"event\":\"restart\",\"restart\":2"));
  EXPECT_THAT(text("log.txt"), HasSubstr("the run failed (exit code 1); restart 1 from the"));
}

TEST_F(SupervisorOf, CheckpointsResetTheCount) {
  EXPECT_EQ(supervise(run_of("[ $n -lt 5 ] && save $n; exit 1", 1)), 1);
  EXPECT_EQ(lines("starts"), 5);
  EXPECT_THAT(text("log.txt"), HasSubstr("restart 4 from step 4"));
}

TEST_F(SupervisorOf, SoDoLocalOnesThatTheRunSpeaksOf) {
  const std::string runs_on =
      "[ $n -lt 4 ] && printf '{\"state\": \"running\", \"locally_saved_step\": %d}' $n > "
      "status.json; exit 1";
  EXPECT_EQ(supervise(run_of("save 1; " + runs_on, 1)), 1);
  // The first start, those from local steps 2 and 3, and one without new progress.
  EXPECT_EQ(lines("starts"), 4);
  EXPECT_THAT(text("log.txt"), HasSubstr("restart 2 from step 2 of the local checkpoints, or from "
                                         "step 1 where one is lost"));
  EXPECT_THAT(text("events.jsonl"), HasSubstr("\"locally_saved_step\":3"));
}

TEST_F(SupervisorOf, ARunWithoutProgressGivesUpWithTheReason) {
  write_file_durably(folder_ / "status.json", "{\"state\": \"interrupted\"}");  // of an older start
  EXPECT_EQ(supervise(run_of("kill -9 $$", 2)), 1);
  EXPECT_EQ(lines("starts"), 3);
  EXPECT_THAT(text("log.txt"), HasSubstr("not restarted: it failed 3 times in a row without a "
                                         "new checkpoint, most recently with killed by signal 9"));
  EXPECT_THAT(text("events.jsonl"), HasSubstr("\"event\":\"gave up\""));
}

TEST_F(SupervisorOf, ARunThatDiesWithoutAWordGetsOneInItsStatus) {
  supervise(run_of("echo '{\"state\": \"running\", \"step\": 7}' > status.json; kill -9 $$", 0));
  EXPECT_THAT(text("status.json"), HasSubstr("\"failed\""));
  EXPECT_THAT(text("status.json"), HasSubstr("killed by signal 9"));
}

TEST_F(SupervisorOf, WrongInputIsNotTriedAgain) {
  EXPECT_EQ(supervise(run_of("exit 2")), 2);
  EXPECT_EQ(lines("starts"), 1);
  EXPECT_EQ(supervise({{"/absent/program"}, folder_, {3, 0, 0}, "", 0}), 127);
}

TEST_F(SupervisorOf, AnInterruptedRunEndsWithItsExitCodeWhateverTheLauncherSays) {
  EXPECT_EQ(supervise(run_of("echo '{\"state\": \"interrupted\"}' > status.json; exit 9")), 3);
  EXPECT_EQ(lines("starts"), 1);
}

TEST_F(SupervisorOf, AJobGoesOnWithoutTheNodeThatFailed) {
  write_file_durably(folder_ / "hosts", "a\nb\nc\n");
  SupervisedRun run = run_of(
      "cat {hosts} >> used; [ $n -gt 2 ] || { echo 'srun: error: b: task 1: Killed' >&2; exit 1; "
      "}");
  run.hosts = (folder_ / "hosts").string();
  run.nodes = 2;
  EXPECT_EQ(supervise(run), 0);
  EXPECT_EQ(text("used"), "a\nb\na\nc\na\nc\n");
  EXPECT_THAT(text("log.txt"), HasSubstr("without the node b"));
  EXPECT_THAT(text("events.jsonl"), HasSubstr("\"failed_host\":\"b\""));
}

// Launchers that have lost a node may never end.
TEST_F(SupervisorOf, ALauncherThatHangsAfterTheRunIsEnded) {
  const std::string hangs = " > status.json; sleep 1000 & wait; exit 7";
  SupervisedRun run = run_of("echo '{\"state\": \"done\"}'" + hangs);
  run.launcher_limit_s = 0.2;
  EXPECT_EQ(supervise(run), 0);
  EXPECT_EQ(lines("starts"), 1);
  EXPECT_THAT(text("log.txt"), HasSubstr("its launcher sh did not exit within 0.2 s"));

  fs::remove(folder_ / "starts");
  run = run_of("[ $n -gt 1 ] || { echo '{\"state\": \"failed\", \"reason\": \"a wait\"}'" + hangs +
               "; }");
  run.launcher_limit_s = 0.2;
  EXPECT_EQ(supervise(run), 0);
  EXPECT_EQ(lines("starts"), 2);
  EXPECT_THAT(text("log.txt"), HasSubstr("its launcher did not exit: a wait); restart 1"));

  fs::remove(folder_ / "starts");
  run = run_of("echo '{\"state\": \"interrupted\"}'" + hangs);
  run.launcher_limit_s = 0.2;
  EXPECT_EQ(supervise(run), 3);
}

TEST_F(SupervisorOf, ALauncherThatHangsAfterARanksLastMessageIsEnded) {
  SupervisedRun run = run_of(
      "[ $n -gt 1 ] || { echo 'trireme: rank 0 (a): MPI did not start' >&2; trap '' TERM; sleep "
      "1000 & wait; wait; }");
  run.launcher_limit_s = 0.2;
  run.reads_errors = true;
  EXPECT_EQ(supervise(run), 0);
  EXPECT_EQ(lines("starts"), 2);
}

TEST_F(SupervisorOf, ALauncherThatNeverStartsTheRunIsEnded) {
  write_file_durably(folder_ / "hosts", "a\nb\n");
  SupervisedRun run = run_of(
      ": {hosts}; [ $n -gt 1 ] || { sleep 1000 & wait; }; echo '{\"state\": \"done\"}' > "
      "status.json");
  run.hosts = (folder_ / "hosts").string();
  run.start_limit_s = run.launcher_limit_s = 0.2;
  EXPECT_EQ(supervise(run), 0);
  EXPECT_EQ(lines("starts"), 2);
  EXPECT_THAT(text("log.txt"), HasSubstr("did not start the run within 0.2 s (--start-wait)"));
  EXPECT_THAT(text("log.txt"), HasSubstr("the run failed (its launcher did not start it)"));
}

// A status file or a log line shows that the run has begun, however long its first step takes.
TEST_F(SupervisorOf, AStartThatHasBegunMayTakeLong) {
  write_file_durably(folder_ / "hosts", "a\nb\n");
  for (const std::string sign :
       {"echo model: >> log.txt", "echo '{\"state\": \"running\"}' > status.json"}) {
    fs::remove(folder_ / "starts");
    SupervisedRun run = run_of(": {hosts}; " + sign + "; sleep 1");
    run.hosts = (folder_ / "hosts").string();
    run.start_limit_s = run.launcher_limit_s = 0.2;
    EXPECT_EQ(supervise(run), 0) << sign;
    EXPECT_EQ(lines("starts"), 1) << sign;
  }
}

// Removes killed ranks' shared memory, but not older segments or those that a process still uses.
TEST_F(SupervisorOf, ARestartRemovesWhatKilledRanksHaveLeft) {
  const std::string mark = "trireme-test-" + std::to_string(::getpid());
  const fs::path older = "/dev/shm/vader_segment.older-" + mark;
  const fs::path mapped = "/dev/shm/vader_segment.mapped-" + mark;
  const fs::path opened = "/dev/shm/vader_segment.opened-" + mark;  // about to be mapped by a rank
  const fs::path left = "/dev/shm/vader_segment.left-" + mark;
  write_file_durably(older, "x");
  fs::last_write_time(older, fs::file_time_type::clock::now() - std::chrono::hours(1));
  write_file_durably(mapped, std::string(4096, 'x'));
  write_file_durably(opened, "x");
  int file = ::open(mapped.c_str(), O_RDWR | O_CLOEXEC);
  void* const memory = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  file = ::open(opened.c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(supervise(run_of("[ $n -gt 1 ] || { echo > " + left.string() + "; touch " +
                             mapped.string() + " " + opened.string() + "; exit 1; }")),
            0);
  EXPECT_FALSE(fs::exists(left));
  for (const fs::path& kept : {older, mapped, opened}) {
    EXPECT_TRUE(fs::exists(kept)) << kept;
    fs::remove(kept);
  }
  ::munmap(memory, 4096);
  ::close(file);
}

// Without its own list of hosts, a launcher may wait in a queue.
TEST_F(SupervisorOf, ALauncherWithoutHostsMayTakeLongToStart) {
  SupervisedRun run = run_of("sleep 1");
  run.start_limit_s = run.launcher_limit_s = 0.2;
  EXPECT_EQ(supervise(run), 0);
  EXPECT_EQ(lines("starts"), 1);
}

// mpirun returns 1 if a rank left without finalizing MPI.
TEST_F(SupervisorOf, ARunThatIsDoneEndsWellWhateverItsLauncherSays) {
  EXPECT_EQ(supervise(run_of("echo '{\"state\": \"done\"}' > status.json; exit 1")), 0);
  EXPECT_EQ(supervise(run_of("echo '{\"state\": \"stopped\"}' > status.json; kill -9 $$")), 0);
  EXPECT_EQ(lines("starts"), 2);
}

TEST_F(SupervisorOf, ARunThatGoesOnIsNotEnded) {
  SupervisedRun run = run_of(
      "exec 9> lock; flock 9; echo '{\"state\": \"failed\"}' > status.json; sleep 1; echo "
      "'{\"state\": \"done\"}' > status.json");
  run.launcher_limit_s = 0.2;
  EXPECT_EQ(supervise(run), 0);
  EXPECT_THAT(text("log.txt"), Not(HasSubstr("did not exit")));
}

TEST_F(SupervisorOf, ANodeThatDoesNotAnswerIsLeftOut) {
  write_file_durably(folder_ / "hosts", "a\nb\nc\n");
  SupervisedRun run = run_of(
      "cat {hosts} >> used; [ $n -gt 1 ] || { echo \"trireme: rank 0 (a): Missing: rank 1 on b "
      "(does not respond); suspect nodes: b\" >&2; exit 1; }");
  run.hosts = (folder_ / "hosts").string();
  run.nodes = 2;
  EXPECT_EQ(supervise(run), 0);
  EXPECT_EQ(text("used"), "a\nb\na\nc\n");
}

TEST_F(SupervisorOf, AHostThatTheLauncherNamesOnItsOutputIsLeftOut) {
  write_file_durably(folder_ / "hosts", "a\nb\nc\n");
  SupervisedRun run = run_of(
      "cat {hosts} >> used; [ $n -gt 1 ] || { echo '=   PID 21 RUNNING AT b'; echo '=   EXIT CODE: "
      "9'; exit 255; }");
  run.hosts = (folder_ / "hosts").string();
  run.nodes = 2;
  EXPECT_EQ(supervise(run), 0);
  EXPECT_EQ(text("used"), "a\nb\na\nc\n");
}

TEST_F(SupervisorOf, TheStatusOfTheRunNamesItToo) {
  write_file_durably(folder_ / "hosts", "a\nb\nc\n");
  SupervisedRun run = run_of(
      "cat {hosts} >> used; [ $n -gt 1 ] || { echo '{\"state\": \"failed\", \"reason\": \"rank 0: "
      "x; suspect nodes: b\"}' > status.json; exit 1; }");
  run.hosts = (folder_ / "hosts").string();
  run.nodes = 2;
  EXPECT_EQ(supervise(run), 0);
  EXPECT_EQ(text("used"), "a\nb\na\nc\n");
}

// With two nodes, the one that is cut off is the one that no other can reach.
TEST_F(SupervisorOf, OfTwoNodesTheOneThatStaysIsLeftOut) {
  write_file_durably(folder_ / "hosts", "a\nb\nc\n");
  SupervisedRun run = run_of(
      "cat {hosts} >> used; [ $n -gt 2 ] || { o=$(sed -n 2p {hosts}); echo \"trireme: rank 0 (a): "
      "x; suspect nodes: $o\" >&2; exit 1; }");
  run.hosts = (folder_ / "hosts").string();
  run.nodes = 2;
  EXPECT_EQ(supervise(run), 0);
  EXPECT_EQ(text("used"), "a\nb\na\nc\nc\nb\n");
}

TEST_F(SupervisorOf, NodesAreCheckedWhereARunFailsBeforeItBegins) {
  write_file_durably(folder_ / "hosts", "a\nb\nc\n");
  // Acts as the program: trains on nodes other than b, and finds that b does not respond.
  write_file_durably(folder_ / "trireme",
                     "#!/bin/sh\nif [ $1 = train ]; then ! grep -q b $HOSTS_FILE; exit; fi\n"
                     "echo \"$*\" > " +
                         (folder_ / "asked").string() + "\nprintf 'a\\nc\\n' > $4\nexit 1\n");
  fs::permissions(folder_ / "trireme", fs::perms::owner_all);
  SupervisedRun run{
      {"env", "HOSTS_FILE={hosts}", (folder_ / "trireme").string(), "train", "x.toml"},
      folder_,
      {3, 0, 0},
      (folder_ / "hosts").string(),
      2};
  EXPECT_EQ(supervise(run), 0);
  EXPECT_THAT(text("asked"), HasSubstr("doctor --nodes --hosts"));
  EXPECT_THAT(text("log.txt"), HasSubstr("without the node b"));
}

// Two ranks that cannot reach each other do not learn each other's names.
TEST_F(SupervisorOf, ACheckOfTwoNodesThatNamesNoneLeavesOutOneAndThenTheOther) {
  write_file_durably(folder_ / "trireme",
                     "#!/bin/sh\ncd " + folder_.string() +
                         "\nif [ $1 = train ]; then echo $(cat $HOSTS_FILE) >> used; ! grep -q "
                         "$(cat cut) $HOSTS_FILE; exit; fi\n"
                         "echo 'bad node: rank 1: no messages are exchanged with rank 0 (a)' >&2\n"
                         "exit 1\n");
  fs::permissions(folder_ / "trireme", fs::perms::owner_all);
  const auto used_where_cut_off_is = [&](const std::string& host) {
    write_file_durably(folder_ / "hosts", "a\nb\nc\n");
    write_file_durably(folder_ / "cut", host);
    fs::remove(folder_ / "used");
    SupervisedRun run{
        {"env", "HOSTS_FILE={hosts}", (folder_ / "trireme").string(), "train", "x.toml"},
        folder_,
        {3, 0, 0},
        (folder_ / "hosts").string(),
        2};
    EXPECT_EQ(supervise(run), 0);
    return text("used");
  };
  EXPECT_EQ(used_where_cut_off_is("b"), "a b\na c\n");
  EXPECT_EQ(used_where_cut_off_is("a"), "a b\na c\nc b\n");
}

TEST_F(SupervisorOf, HostsAndTheirPlaceInTheCommandBelongTogether) {
  SupervisedRun run = run_of("true");
  run.nodes = 2;
  EXPECT_THAT(refusal_of([&] { supervise(run); }), HasSubstr("--nodes 2 requires --hosts"));
  run.hosts = "hosts";
  EXPECT_THAT(refusal_of([&] { supervise(run); }), HasSubstr("expected {hosts} in the command"));
  run = run_of("cat {hosts}");
  EXPECT_THAT(refusal_of([&] { supervise(run); }), HasSubstr("no --hosts FILE"));
  EXPECT_EQ(lines("starts"), 0);
}

}  // namespace
}  // namespace trireme
