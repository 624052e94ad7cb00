// Tests of copies of local checkpoints: a node that is lost with its disk costs only the steps
// since the newest local checkpoint that was copied.
#include <cstdlib>
#include <random>

#include "faults.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;
using testing::Not;

// Nodes are simulated by a preloaded library: each has its host name and its folder.
class LocalCopiesOfRuns : public Faults {
 protected:
  using Nodes = std::vector<std::string>;  // by rank

  LocalCopiesOfRuns() { fs::create_directories(disks()); }

  fs::path disks() const { return folder_ / "disks"; }
  std::string settings() const {
    return "train.iters=14 train.eval_iters=0 checkpoint.interval=5 checkpoint.local_interval=2 "
           "checkpoint.local_dir=local checkpoint.local_copies=1";
  }
  Program start_on(const Nodes& nodes, const std::string& dir, const std::string& layout,
                   const std::string& more = "") const {
    std::string places = disks().string();
    for (const std::string& node : nodes) places += " " + node;
    return Program(
        job_arguments(dir, {static_cast<int>(nodes.size()), layout}, settings() + " " + more),
        path(dir + ".out"),
        {{"TRIREME_THREADS", "1"},
         {"TRIREME_TEST_JOB", path(dir)},
         {"TRIREME_TEST_NODES", places},
         {"LD_PRELOAD", TRIREME_TEST_NODES},
         {"OMPI_MCA_odls_base_sigkill_timeout", "0"}});
  }
  Outcome train_on_nodes(const Nodes& nodes, const std::string& layout,
                         const std::string& more = "") const {
    Program program = start_on(nodes, "run", layout, more);
    return wait_for(program, 60);
  }
  // Trains nine steps, and undoes the save at their end: the run has saved step 5 in its folder,
  // and steps 6 and 8 locally.
  void train_nine_steps(const Nodes& nodes, const std::string& layout) const {
    const Outcome outcome = train_on_nodes(nodes, layout, "train.exit_interval=9");
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    fs::remove_all(folder_ / "run/checkpoints/step-00000009");
    write("run/checkpoints/latest", "step-00000005\n");
    copy("run", "kept/run");
    copy("disks", "kept/disks");
  }
  void copy(const std::string& from, const std::string& to) const {
    fs::remove_all(folder_ / to);
    fs::create_directories((folder_ / to).parent_path());
    fs::copy(folder_ / from, folder_ / to, fs::copy_options::recursive);
  }
  void again() const {
    copy("kept/run", "run");
    copy("kept/disks", "disks");
  }
  void expect_resumes_at(const std::string& step, const Nodes& nodes, const std::string& layout,
                         const std::string& warning = "") const {
    SCOPED_TRACE("at step " + step);
    const Outcome outcome = train_on_nodes(nodes, layout);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(warning));
    EXPECT_THAT(outcome.out,
                HasSubstr(step == "5" ? "checkpoints/step-00000005 at step 5"
                                      : "local checkpoints in 'local' at step " + step));
    EXPECT_EQ(metrics("run"), metrics("whole"));
    EXPECT_EQ(first_difference(path("run"), path("whole")), "");
    again();
  }
  // Returns the folder that a node has for a rank: "rank-00000", "copy-00001".
  fs::path on(const std::string& node, const std::string& name) const {
    for (const auto& run : fs::directory_iterator(disks() / node / "local")) {
      return run.path() / name;
    }
    ADD_FAILURE() << node << " has no local checkpoints";
    return {};
  }
  static void damage(const fs::path& checkpoint) {
    std::fstream shard(checkpoint / "shard-00000.safetensors",
                       std::ios::in | std::ios::out | std::ios::binary);
    shard.seekp(-3, std::ios::end);
    shard.put('\x55');
  }
  // Returns an integer of status.json; 0 if it is not there.
  long status(const std::string& name) const {
    const std::string text = read("run/status.json"), key = "\"" + name + "\": ";
    const std::size_t at = text.find(key);
    return at == std::string::npos ? 0 : std::strtol(text.c_str() + at + key.size(), nullptr, 10);
  }
};

TEST_F(LocalCopiesOfRuns, ReplaceWhatALostNodeHad) {
  const std::string layout = "parallel.zero=1";
  ASSERT_EQ(train_on("whole", {2, layout}, "train.iters=14 train.eval_iters=0").code, 0);
  train_nine_steps({"a", "b"}, layout);
  EXPECT_THAT(read("run/status.json"), HasSubstr("\"locally_copied_step\": 8"));
  expect_resumes_at("8", {"a", "b"}, layout);

  fs::remove_all(disks() / "b");
  expect_resumes_at("8", {"a", "b"}, layout);
  fs::remove_all(disks() / "a");
  expect_resumes_at("8", {"a", "b"}, layout);

  fs::remove_all(disks() / "b");  // rank 0 is on the new node
  expect_resumes_at("8", {"c", "a"}, layout);

  expect_resumes_at("8", {"b", "a"}, layout);  // nothing is lost, but ranks changed places

  fs::remove_all(disks() / "a");  // and the copy on the other node was not complete
  fs::rename(on("b", "copy-00000/step-00000008"), on("b", "copy-00000/step-00000008.tmp"));
  expect_resumes_at("6", {"a", "b"}, layout);

  fs::remove_all(disks() / "a");  // and the copy on the other node is damaged
  damage(on("b", "copy-00000/step-00000008"));
  expect_resumes_at("6", {"a", "b"}, layout,
                    "a local checkpoint is not usable: step 8 of rank 0: ");

  damage(on("a", "rank-00000/step-00000008"));  // the copy is not
  expect_resumes_at("8", {"a", "b"}, layout);

  fs::remove_all(disks() / "a");
  fs::remove_all(disks() / "b");
  fs::create_directories(disks());
  expect_resumes_at("5", {"a", "b"}, layout);
}

TEST_F(LocalCopiesOfRuns, AreKeptForAllRanksOfANode) {
  const std::string layout = "parallel.tp=2 parallel.zero=1";
  ASSERT_EQ(train_on("whole", {4, layout}, "train.iters=14 train.eval_iters=0").code, 0);
  train_nine_steps({"a", "a", "b", "b"}, layout);
  fs::remove_all(disks() / "a");
  expect_resumes_at("8", {"b", "b", "c", "c"}, layout);
  // Ranks and copies of the earlier places are removed, and three nodes of different sizes work.
  fs::remove_all(disks() / "b");
  const Outcome outcome = train_on_nodes({"a", "a", "c", "d"}, layout);
  EXPECT_THAT(outcome.out, HasSubstr("'local' at step 8"));
  EXPECT_EQ(first_difference(path("run"), path("whole")), "");
  EXPECT_TRUE(fs::exists(on("a", "copy-00003")));
  EXPECT_FALSE(fs::exists(on("a", "copy-00002")));
  EXPECT_TRUE(fs::exists(on("c", "copy-00001")));
  EXPECT_TRUE(fs::exists(on("d", "copy-00002")));
}

TEST_F(LocalCopiesOfRuns, NeedAnotherNode) {
  const Outcome one = train_on_nodes({"a", "a"}, "parallel.zero=1", "train.iters=4");
  EXPECT_EQ(one.code, 0) << one.out;
  EXPECT_THAT(one.out, HasSubstr("makes no copies: all 2 ranks are on a"));
  EXPECT_THAT(read("run/status.json"), Not(HasSubstr("locally_copied_step")));
  const Outcome none = train_on("other", {2, "parallel.zero=1"}, "checkpoint.local_copies=1");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.out, HasSubstr("checkpoint.local_dir"));
}

// Nodes that see the same folder: nothing in it belongs to another node.
TEST_F(LocalCopiesOfRuns, InOneFolderForAllNodesAreNotMade) {
  const std::string layout = "parallel.zero=1",
                    folder = "checkpoint.local_dir=" + path("disks/all");
  ASSERT_EQ(train_on("whole", {2, "parallel.zero=1"}, "train.iters=14 train.eval_iters=0").code, 0);
  const Outcome begun = train_on_nodes({"a", "b"}, layout, folder + " train.exit_interval=3");
  ASSERT_EQ(begun.code, 0) << begun.out;
  EXPECT_THAT(begun.out, HasSubstr("is one folder for all nodes"));
  fs::remove_all(folder_ / "run/checkpoints");  // undoes the save at the end
  const Outcome resumed = train_on_nodes({"a", "b"}, layout, folder);
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, HasSubstr("disks/all' at step 2"));
  EXPECT_EQ(first_difference(path("run"), path("whole")), "");
}

// Another number of nodes: the local checkpoints are of no use, and are removed.
TEST_F(LocalCopiesOfRuns, OfAnotherLayoutAreNotUsed) {
  train_nine_steps({"a", "b", "c", "d"}, "parallel.tp=2 parallel.zero=1");
  const Outcome outcome = train_on_nodes({"b", "c"}, "parallel.tp=2");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("checkpoints/step-00000005 at step 5"));
  EXPECT_TRUE(fs::exists(on("b", "copy-00001")));
  EXPECT_FALSE(fs::exists(on("b", "rank-00001")));
  EXPECT_FALSE(fs::exists(on("c", "rank-00002")));
}

// Where a copy belongs is a file: the run continues without this copy and says so.
TEST_F(LocalCopiesOfRuns, ThatCannotBeWrittenAreWarnings) {
  train_nine_steps({"a", "b"}, "parallel.zero=1");
  fs::remove_all(on("b", "copy-00000"));
  std::ofstream(on("b", "copy-00000")) << "in the way";
  const Outcome outcome = train_on_nodes({"a", "b"}, "parallel.zero=1");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("of step 12 has no copies on other nodes: rank 1: "));
  EXPECT_THAT(outcome.out, HasSubstr("copy-00000"));
}

class SlowLocalCopies : public LocalCopiesOfRuns {};

// Again and again a node is killed at any time, together with its disk, and replaced by a new one.
// The number of kills is three times TRIREME_SCALE.
TEST_F(SlowLocalCopies, LoseNothingThatWasCopied) {
  const char* scale = std::getenv("TRIREME_SCALE");
  const int kills = scale ? static_cast<int>(3 * std::strtod(scale, nullptr)) : 3;
  const std::string layout = "parallel.zero=1",
                    more = "parallel.numerics=exact checkpoint.interval=100000 train.iters=" +
                           std::to_string(30 + 25 * kills);
  ASSERT_EQ(train_on("whole", {1, ""}, "train.eval_iters=0 " + more).code, 0);
  std::mt19937 random(5);
  Nodes nodes = {"0", "1"};
  long copied = 0, reached = 0, most = 0, within_interval = 0;
  for (int kill = 0; kill <= kills; ++kill) {
    SCOPED_TRACE(kill);
    Program program = start_on(nodes, "run", layout, more);
    ASSERT_TRUE(program.runs_until([&] { return status("locally_copied_step") > copied; }))
        << read("run.out");
    if (kill > 0) {
      const std::string out = read("run.out"), words = "in 'local' at step ";
      const std::size_t place = out.find(words);
      ASSERT_NE(place, std::string::npos) << out;
      const long resumed = std::strtol(out.c_str() + place + words.size(), nullptr, 10);
      EXPECT_GE(resumed, copied);
      // The next save waits for the copy before it.
      EXPECT_LE(reached - resumed, 2 * 2);
      most = std::max(most, reached - resumed);
      within_interval += reached - resumed <= 2;
    }
    if (kill == kills) {
      program.kill(SIGTERM);  // saves
      EXPECT_EQ(wait_for(program, 60).code, 3);
      break;
    }
    ASSERT_TRUE(advance(program, "run", random() % 8, static_cast<double>(random() % 30) / 1000));
    const std::size_t victim = random() % nodes.size();
    send(program, "run", static_cast<int>(victim), SIGKILL);
    expect_end(program, "run", end_s);
    copied = status("locally_copied_step");
    reached = static_cast<long>(values_of(metrics("run"), "loss").size());
    fs::remove_all(disks() / nodes[victim]);
    nodes[victim] = std::to_string(kill + 2);
    if (random() % 2 == 0) std::swap(nodes[0], nodes[1]);
  }
  EXPECT_TRUE(metrics("whole").starts_with(metrics("run")));
  RecordProperty("kills", kills);
  RecordProperty("most_steps_lost", static_cast<int>(most));
  RecordProperty("kills_that_lost_at_most_the_interval", static_cast<int>(within_interval));
}

}  // namespace
}  // namespace trireme::testing_cli
