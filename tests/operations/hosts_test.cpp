// Tests of which host a launcher blames, and of replacing it with a spare one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "operations/blame.h"
#include "operations/host_list.h"
#include "refusal.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string blamed(std::string_view text) {
  Blame blame;
  blame.read(text);
  return blame.hosts().empty() ? "" : blame.hosts().front();
}

TEST(Blame, KnowsTheWordsOfLaunchers) {
  EXPECT_EQ(blamed("mpirun noticed that process rank 1 with PID 0 on node nid1 exited on signal 9 "
                   "(Killed).\n"),
            "nid1");
  EXPECT_EQ(blamed("srun: error: nid001: tasks 8-15: Segmentation fault (core dumped)\n"),
            "nid001");
  EXPECT_EQ(blamed("srun: error: Node failure on nid002\n"), "nid002");
  EXPECT_EQ(blamed("=   PID 12 RUNNING AT nid3\n=   EXIT CODE: 9\n"
                   "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n"),
            "nid3");
}

TEST(Blame, KnowsWhatLaunchersSayOfHostsThatTheyHaveLost) {
  const std::string lost =
      "ORTE has lost communication with a remote daemon.\n\n"
      "  HNP daemon   : [[26864,0],0] on node an2\n"
      "  Remote daemon: [[26864,0],2] on node 10.77.0.4\n\n"
      "This is usually due to either a failure of the TCP network\n";
  EXPECT_EQ(blamed(lost), "10.77.0.4");
  EXPECT_EQ(blamed("P" + lost.substr(1)), "10.77.0.4");  // PRTE, of Open MPI 5
  EXPECT_EQ(blamed("  Remote daemon: [[26864,0],2] on node n7\n"), "") << "nothing was lost";
  EXPECT_EQ(blamed("ORTE does not know how to route a message to the specified daemon\n"
                   "located on the indicated node:\n\n  my node:   n1\n  target node:  n2\n"),
            "n2");
  EXPECT_EQ(blamed("[mpiexec@n1] control_cb (pm/pmiserv/pmiserv_cb.c:208): connection to proxy 1 "
                   "at host n3 failed\n"),
            "n3");
  EXPECT_EQ(blamed("ssh: connect to host n4 port 22: No route to host\n"), "n4");
  EXPECT_EQ(blamed("ssh: Could not resolve hostname n5: Name or service not known\n"), "n5");
  EXPECT_EQ(blamed("srun: error: Task launch for StepId=4.0 failed on node n6: Communication "
                   "connection failure\n"),
            "n6");
}

TEST(Blame, KnowsHydrasNumbersOfSignals) {
  const auto ended_with = [](const char* code) {
    return blamed(std::string("=   PID 561 RUNNING AT 10.77.0.4\n=   EXIT CODE: ") + code + "\n");
  };
  EXPECT_EQ(ended_with("9"), "10.77.0.4");
  EXPECT_EQ(ended_with("139"), "10.77.0.4");
  for (const char* own : {"1", "2", "3", "15", "143", "x"}) EXPECT_EQ(ended_with(own), "") << own;
}

// MPICH's mpiexec names the host on its standard output, among the lines of the ranks.
TEST(Blame, ReadsTheOutputOfALauncherToo) {
  const auto blamed_in_output = [](const std::string& text) {
    Blame blame;
    blame.read("trireme: a line without ", Blame::Stream::error);
    blame.read(text, Blame::Stream::output);
    return blame.hosts().empty() ? "" : blame.hosts().front();
  };
  EXPECT_EQ(blamed_in_output("step 3 | loss 2\n=   PID 21 RUNNING AT n2\n=   EXIT CODE: 9\n"),
            "n2");
  EXPECT_EQ(blamed_in_output("a sample: suspect nodes: n3\nbad node n3: rank 1: x\n"), "");
}

TEST(Blame, ReadsListsOfHosts) {
  Blame blame;
  blame.read("srun: error: Node failure on n[08-10,12],m1\n");
  EXPECT_THAT(blame.hosts(), ElementsAre("n08", "n09", "n10", "n12", "m1"));
  EXPECT_EQ(blamed("srun: error: n[3-4]: tasks 1-2: Killed\n"), "n3");
  for (const char* wrong : {"n[4-3]", "n[1-", "n[1-999999999]", "n[a-b]", "n[1-2];reboot"})
    EXPECT_EQ(blamed(std::string("srun: error: Node failure on ") + wrong + "\n"), "") << wrong;
}

TEST(Blame, BelievesTheLowestRankThatSuspectsSomebody) {
  const std::string high = "trireme: rank 1 (b): 'x' is not complete; suspect nodes: a\n";
  const std::string low = "trireme: rank 0 (a): 'x' is not complete; suspect nodes: b\n";
  EXPECT_EQ(blamed(high + low), "b");
  EXPECT_EQ(blamed(low + high), "b");
  Blame blame;
  EXPECT_FALSE(blame.a_rank_ended());
  blame.read(high);
  EXPECT_TRUE(blame.a_rank_ended());
}

TEST(Blame, TakesWhatTheCheckOfNodesNames) {
  EXPECT_EQ(blamed("bad node: rank 1: no messages are exchanged with rank 0 (a)\n"
                   "bad node b: rank 1: it received messages from 0 of the other 1 rank\n"),
            "b");
  EXPECT_EQ(blamed("bad node $(reboot): rank 1: it received messages from 0 of the other 1 rank\n"),
            "");
  Blame blame;
  blame.read("bad node b: rank 1: the other ranks do not reach it\n");
  EXPECT_TRUE(blame.is_suspicion());
}

TEST(Blame, TakesTheFirstAndLeavesTheOthers) {
  EXPECT_EQ(blamed("srun: error: a: task 1: Bus error\nsrun: error: b: task 0: Killed\n"), "a");
}

TEST(Blame, IsNotOfRanksThatEndedThemselves) {
  EXPECT_EQ(blamed("srun: error: nid001: task 3: Exited with exit code 1\n"), "");
  EXPECT_EQ(blamed("srun: error: nid001: task 3: Terminated\n"), "");
  EXPECT_EQ(blamed("=   PID 12 RUNNING AT nid3\n=   EXIT CODE: 1\n"), "");
  EXPECT_EQ(blamed("trireme: rank 3 (nid7): Killed\n"), "");
  EXPECT_EQ(blamed("srun: error: $(reboot): task 3: Killed\n"), "");
}

TEST(Blame, IsNotOfRanksThatSrunEnds) {
  const std::string killed = "srun: error: n3: task 1: Killed\n";
  EXPECT_EQ(blamed("srun: error: n2: task 0: Exited with exit code 1\n" + killed), "");
  EXPECT_EQ(blamed("srun: launch/slurm: _step_signal: Terminating StepId=7.2\n" + killed), "");
  EXPECT_EQ(
      blamed("srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n" + killed),
      "");
  EXPECT_EQ(blamed("srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n"
                   "srun: error: Node failure on n4\n"),
            "n4");
}

TEST(Blame, ReadsLinesInPiecesAndBoundsThem) {
  Blame blame;
  blame.read("srun: error: no");
  blame.read("de7: task 1: Kil");
  EXPECT_THAT(blame.hosts(), IsEmpty());
  blame.read("led\n");
  EXPECT_THAT(blame.hosts(), ElementsAre("node7"));
  Blame long_line;
  for (int i = 0; i < 100; ++i) long_line.read(std::string(1000, 'x'));
  long_line.read("\nsrun: error: a: task 1: Killed\n");
  EXPECT_THAT(long_line.hosts(), ElementsAre("a"));
}

TEST(Blame, TakesAllThatTheGuardSuspects) {
  Blame blame;
  blame.read(
      "trireme: rank 0 (a): silent corruption found after step 9: ...; suspect nodes: n7, n-9\n"
      "mpirun noticed that process rank 1 with PID 0 on node b exited on signal 9 (Killed).\n");
  EXPECT_THAT(blame.hosts(), ElementsAre("n7", "n-9"));
  EXPECT_EQ(blamed("suspect nodes: $(reboot), , \n"), "");
}

class Hosts : public testing::Test {
 protected:
  ~Hosts() override { fs::remove(file_); }
  HostList list(const std::string& text, int used) const {
    write_file_durably(file_, text);
    return {file_, used};
  }
  const fs::path file_ = fs::path(testing::TempDir()) / ("hosts" + std::to_string(::getpid()));
};

TEST_F(Hosts, ASpareOneTakesThePlaceOfOneThatFailed) {
  HostList hosts = list("# good ones\na slots=8\n\nb slots=8\r\nc slots=8\n", 2);
  EXPECT_EQ(hosts.text(), "a slots=8\nb slots=8\n");
  EXPECT_THAT(hosts.replace({"a"}), ElementsAre("a"));
  EXPECT_FALSE(hosts.uses("a"));
  EXPECT_EQ(hosts.text(), "b slots=8\nc slots=8\n");
  EXPECT_THAT(hosts.replace({"unknown", "a"}), IsEmpty());  // a is not in use any more
  EXPECT_EQ(hosts.text(), "b slots=8\nc slots=8\n");
}

TEST_F(Hosts, OfTwoThatAreReplacedOneStaysWhereOneIsSpare) {
  HostList hosts = list("a\nb\nc\n", 2);
  EXPECT_THAT(hosts.replace({"a", "b"}), ElementsAre("a", "b"));
  EXPECT_EQ(hosts.text(), "c\na\n");
}

TEST_F(Hosts, WithoutSpareOnesAllGoOn) {
  HostList hosts = list("a\nb\n", 0);
  EXPECT_THAT(hosts.replace({"a"}), ElementsAre("a"));
  EXPECT_TRUE(hosts.uses("a"));
  EXPECT_EQ(hosts.text(), "b\na\n");
}

TEST_F(Hosts, AreKnownByTheirAddressesAndWithTheirDomains) {
  HostList hosts = list("127.0.0.1\nn2.cluster\nspare\n", 2);
  EXPECT_TRUE(hosts.uses("localhost"));
  EXPECT_THAT(hosts.replace({"n2"}), ElementsAre("n2"));
  EXPECT_EQ(hosts.text(), "127.0.0.1\nspare\n");
  EXPECT_THAT(hosts.used_but_not({"localhost", "n9"}), ElementsAre("spare"));
  EXPECT_FALSE(is_same_host("n2", "n22"));
  EXPECT_FALSE(is_same_host("10.0.0.1", "10.0.0.11"));
}

TEST_F(Hosts, WrongOnesAreRefused) {
  EXPECT_THAT(refusal_of([&] { list("a\n", 2); }),
              HasSubstr("contains 1 host, but --nodes requires 2"));
  EXPECT_THAT(refusal_of([&] { list("a\na\n", 0); }), HasSubstr("line 2: duplicate host a"));
  EXPECT_THAT(refusal_of([&] { list("--help\n", 0); }), HasSubstr("expected the name of a host"));
  EXPECT_THAT(refusal_of([&] { list("\n# b\n", 0); }), HasSubstr("contains no host"));
}

}  // namespace
}  // namespace trireme
