// Tests of jobs of four MPI processes in which one fails: the job ends in time, with one message
// that states the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <regex>
#include <string>

namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

struct Outcome {
  int exit_code;
  double seconds;
  std::string output;

  // Number of lines printed by us, without those of mpirun.
  int messages() const {
    int count = 0;
    for (std::size_t at = 0; (at = output.find("trireme:", at)) != std::string::npos; ++at) ++count;
    return count;
  }
};

Outcome shell(const std::string& command) {
  const auto begin = std::chrono::steady_clock::now();
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  Outcome outcome{};
  std::array<char, 4096> buffer;
  for (std::size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    outcome.output.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

// Runs the probe under `timeout`, which ends a hanging job with exit code 124.
Outcome probe(const std::string& mode, double timeout_s) {
  return shell("timeout -s KILL 40 " TRIREME_MPIRUN " -n 4 " TRIREME_PROBE " " + mode + " " +
               std::to_string(timeout_s));
}

TEST(Faults, AnErrorOnOneRankEndsAllWithOneMessage) {
  const Outcome outcome = probe("error", 30);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_TRUE(
      std::regex_search(outcome.output, std::regex(R"(trireme: rank 2 \(.+\): the disk is full)")))
      << outcome.output;
  EXPECT_EQ(outcome.messages(), 1) << outcome.output;
  EXPECT_LT(outcome.seconds, 15);
}

TEST(Faults, AStoppedRankIsNamed) {
  for (const char* mode : {"stop", "stop-in-transfer"}) {
    const Outcome outcome = probe(mode, 1);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("'reduce gradients"));
    EXPECT_THAT(outcome.output, ContainsRegex("rank 1 on [^ ]+ \\(does not respond"));
    EXPECT_EQ(outcome.messages(), 1) << outcome.output;
    EXPECT_LT(outcome.seconds, 20);
  }
}

TEST(Faults, TheRankAtTheEndOfAChainIsNamed) {
  const Outcome outcome = probe("chain", 1);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_TRUE(std::regex_search(
      outcome.output, std::regex("rank 3 on \\S+ \\(does not respond|no response from rank 3")))
      << outcome.output;
  EXPECT_EQ(outcome.messages(), 1) << outcome.output;
}

TEST(Faults, AStoppedFirstRankDoesNotSilenceTheOthers) {
  const Outcome outcome = probe("stop-first", 1);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, ContainsRegex("rank 0 on [^ ]+ \\(does not respond"));
  EXPECT_EQ(outcome.messages(), 1) << outcome.output;
  EXPECT_LT(outcome.seconds, 20);
}

TEST(Faults, ASlowRankIsToldFromADeadOne) {
  const Outcome outcome = probe("busy", 1);
  EXPECT_THAT(outcome.output, HasSubstr("'end of step' of group world (ranks 0-3)"));
  EXPECT_THAT(outcome.output, ContainsRegex("rank 3 on [^ ]+ \\(is computing\\)"));
  EXPECT_EQ(outcome.messages(), 1) << outcome.output;
}

TEST(Faults, AKilledRankEndsTheJob) {
  const Outcome outcome = probe("kill", 5);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_LT(outcome.seconds, 20) << outcome.output;
}

TEST(Faults, RanksThatDifferAreRefused) {
  const Outcome outcome = probe("disagree", 30);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("configuration of rank 1"));
  EXPECT_EQ(outcome.messages(), 1) << outcome.output;
}

// `synchronous`: no send completes before its receive has started, as between GPUs.
Outcome probe_on_gpus(const std::string& mode, double timeout_s) {
  return shell("timeout -s KILL 40 env TRIREME_SYNCHRONOUS_SENDS=1 " TRIREME_MPIRUN
               " -n 4 " TRIREME_PROBE " gpu-" +
               mode + " " + std::to_string(timeout_s));
}

TEST(FaultsOnGpus, AStoppedRankIsNamed) {
  const Outcome outcome = probe_on_gpus("stop", 1);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("'reduce gradients"));
  EXPECT_THAT(outcome.output, HasSubstr("of group ranks (ranks 0-3)"));
  EXPECT_THAT(outcome.output, ContainsRegex("rank 1 on [^ ]+ \\(does not respond"));
  EXPECT_EQ(outcome.messages(), 1) << outcome.output;
  EXPECT_LT(outcome.seconds, 20);
}

// The library's initialization has no time limit of its own.
TEST(FaultsOnGpus, ARankThatStopsWhileAGroupIsJoinedIsNamed) {
  const Outcome outcome =
      shell("timeout -s KILL 40 env TRIREME_EMULATED_FAULT='stuck joining' " TRIREME_MPIRUN
            " -n 4 " TRIREME_PROBE " gpu-stop 1");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("'joining' of group ranks (ranks 0-3)"));
  EXPECT_THAT(outcome.output, ContainsRegex("rank 3 on [^ ]+ \\(does not respond"));
  EXPECT_EQ(outcome.messages(), 1) << outcome.output;
}

TEST(FaultsOnGpus, QueuesThatWaitForEachOtherAreNamed) {
  for (const char* mode : {"crossed", "crossed-sends"}) {
    const Outcome outcome = probe_on_gpus(mode, 1);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("'activations' of group ranks"));
    EXPECT_TRUE(std::regex_search(
        outcome.output,
        std::regex(R"(rank [0-3] on \S+ \(has been waiting for 'activations' of group ranks)")))
        << outcome.output;
    EXPECT_EQ(outcome.messages(), 1) << outcome.output;
  }
}

TEST(FaultsOnGpus, AWrongPeerIsNamed) {
  const Outcome outcome = probe_on_gpus("wrong-peer", 1);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_TRUE(std::regex_search(outcome.output, std::regex("Missing: rank [02] ")))
      << outcome.output;
  EXPECT_EQ(outcome.messages(), 1) << outcome.output;
}

TEST(FaultsOnGpus, AnErrorDoesNotWaitForWhatNeverComes) {
  const Outcome outcome = probe_on_gpus("error", 30);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the disk is full"));
  EXPECT_EQ(outcome.messages(), 1) << outcome.output;
  EXPECT_LT(outcome.seconds, 15);
}

// A launcher unknown to the MPI library starts each process alone, with the work of the whole job.
TEST(Faults, AForeignLauncherIsSeenAndSaidOnce) {
  const std::string nobody = "env -u PMI_FD -u PMIX_RANK ";
  for (const std::string variables :
       {"PMI_SIZE=4 PMI_RANK=", "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK="}) {
    const Outcome first = shell(nobody + variables + "0 " TRIREME_PROBE " busy 1");
    EXPECT_EQ(first.exit_code, 1) << first.output;
    EXPECT_THAT(first.output, HasSubstr("started 4 processes"));
    EXPECT_THAT(first.output, HasSubstr("sees 1: it does not support this launcher"));
    EXPECT_THAT(first.output, HasSubstr("mpiexec"));
    EXPECT_EQ(first.messages(), 1) << first.output;
    const Outcome other = shell(nobody + variables + "3 " TRIREME_PROBE " busy 1");
    EXPECT_EQ(other.exit_code, 1) << other.output;
    EXPECT_EQ(other.messages(), 0) << other.output;
  }
}

}  // namespace
