// Tests of batch scripts: they contain what sites ask for, and a shell runs them as intended.
#include "operations/slurm_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

SlurmJob a_job() {
  SlurmJob job;
  job.arguments = {"run.toml", "parallel.tp=2"};
  job.run_dir = "runs/x";
  job.device = DeviceKind::hip;
  job.name = "run";
  job.nodes = 2;
  job.ranks_per_node = 8;
  job.cores_per_rank = 7;
  return job;
}

TEST(Site, AreFoundByNameAndKnowTheirLimits) {
  EXPECT_EQ(longest_walltime(find_site("frontier"), 91), 120);
  EXPECT_EQ(longest_walltime(find_site("frontier"), 92), 360);
  EXPECT_EQ(longest_walltime(find_site("frontier"), 184), 720);
  EXPECT_EQ(longest_walltime(find_site("generic"), 5), 0);
  EXPECT_THROW(longest_walltime(find_site("lumi"), 5000), Error);
  try {
    find_site("lumy");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "unknown cluster 'lumy': expected one of lumi, frontier, generic");
  }
}

TEST(Site, AreKnownByTheNameOfTheirMachineToo) {
  EXPECT_EQ(find_site("lumi-g").name, "lumi");
  EXPECT_EQ(machine_of_site("lumi"), "lumi-g");
  EXPECT_EQ(machine_of_site("h100"), "h100");
  EXPECT_EQ(machine_of_site("generic"), "generic");
}

// A setting without a date cannot be removed once it is obsolete.
TEST(Site, SaysOfEachSettingWhereItIsFrom) {
  for (const Site& site : all_sites()) {
    for (const auto& variables : {site.variables, site.network_variables}) {
      for (const SiteVariable& one : variables) {
        const bool dated = one.source.find("20") != one.source.npos || one.source == "Trireme";
        EXPECT_TRUE(dated || one.source.find("version") != one.source.npos) << one.name;
        EXPECT_FALSE(one.reason.empty()) << one.name;
        // PHB and SYS make jobs on several nodes hang since ROCm 7.
        EXPECT_NE(one.name, "NCCL_NET_GDR_LEVEL");
      }
    }
    if (!site.partition.empty()) {
      EXPECT_THAT(std::string(site.source), HasSubstr("20"));
    }
  }
}

// Each of a node's 56 usable cores belongs to one rank, and the first core of each eight to none.
TEST(Site, MasksOfLumiShareOutTheUsableCores) {
  const std::string launch(find_site("lumi").launch);
  std::istringstream masks(launch.substr(launch.find("mask_cpu:") + 9));
  std::uint64_t seen = 0;
  int ranks = 0;
  for (std::string mask; std::getline(masks, mask, ','); ++ranks) {
    const std::uint64_t bits = std::stoull(mask, nullptr, 16);
    EXPECT_EQ(__builtin_popcountll(bits), 7) << mask;
    EXPECT_EQ(seen & bits, 0u) << mask;
    seen |= bits;
  }
  EXPECT_EQ(ranks, 8);
  EXPECT_EQ(seen, 0xfefefefefefefefeu);
}

TEST(Walltime, IsReadAsSbatchReadsIt) {
  EXPECT_EQ(parse_walltime("90"), 90);
  EXPECT_EQ(parse_walltime("90:30"), 91);  // minutes and seconds, rounded up
  EXPECT_EQ(parse_walltime("24:00:00"), 1440);
  EXPECT_EQ(parse_walltime("1-12"), 2160);
  EXPECT_EQ(parse_walltime("1-12:30:00"), 2190);
  EXPECT_EQ(walltime_text(2190), "36:30:00");
  for (const char* wrong :
       {"", "0", "1:2:3:4", "-5", "1-", "1d", "12:", ":12", "1--2", "9999999", "999999-0"})
    EXPECT_THROW(parse_walltime(wrong), Error) << wrong;
}

TEST(ShellWord, ComesBackFromAShell) {
  EXPECT_EQ(shell_word("parallel.tp=2"), "parallel.tp=2");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(shell_word("parallel.stage_layers=[1,2]"), "'parallel.stage_layers=[1,2]'");
}

TEST(SlurmScript, SaysWhatASiteNeedsWithTheReasons) {
  const std::string script = slurm_script(find_site("lumi"), a_job());
  for (const char* line :
       {"#SBATCH --nodes=2\n", "#SBATCH --ntasks-per-node=8\n", "#SBATCH --partition=standard-g\n",
        "#SBATCH --signal=USR1@300\n", "#SBATCH --requeue\n", "export NCCL_NET=OFI\n",
        "#SBATCH --network=disable_rdzv_get\n", "export FI_CXI_RDZV_PROTO=alt_read\n",
        "mask_cpu:0xfe000000000000,", "--kill-on-bad-exit=1",
        "trireme train run.toml parallel.tp=2\n", "doctor --device hip"})
    EXPECT_THAT(script, HasSubstr(line));
  EXPECT_THAT(script, Not(HasSubstr("NCCL_MAX_NCHANNELS")));  // only for thousands of ranks
  SlurmJob large = a_job();
  large.nodes = 640;
  EXPECT_THAT(slurm_script(find_site("frontier"), large),
              HasSubstr("export NCCL_MAX_NCHANNELS=20\n"));
  EXPECT_THAT(script, Not(HasSubstr("GDR_LEVEL")));
  EXPECT_THAT(script, HasSubstr("(LUMI-AI-Guide #118, 2026-09-15"));
  // A comment with reason and source precedes every variable.
  std::istringstream lines(script);
  std::string before;
  for (std::string line; std::getline(lines, line); before = line) {
    if (line.starts_with("export ")) {
      EXPECT_TRUE(before.starts_with("# ") && before.ends_with(")")) << line;
    }
  }
}

TEST(SlurmScript, LeavesOutWhatAJobDoesNotNeed) {
  SlurmJob job = a_job();
  job.nodes = 1;
  job.requeue = job.check_nodes = false;
  const std::string script = slurm_script(find_site("frontier"), job);
  EXPECT_THAT(script, Not(HasSubstr("NCCL_NET")));  // a single node needs no network
  EXPECT_THAT(script, Not(HasSubstr("--network")));
  EXPECT_THAT(script, Not(HasSubstr("scontrol")));
  EXPECT_THAT(script, HasSubstr("#SBATCH --no-requeue\n"));  // not even after a node failure
  EXPECT_THAT(script, Not(HasSubstr("doctor")));
  EXPECT_THAT(script, HasSubstr("exit $code"));
}

TEST(SlurmScript, RefusesNamesThatALineOfSbatchCannotHold) {
  for (const char* wrong : {"a b", "a\nrm x", "a#b", "a'b", "a/b", "$(x)"}) {
    SlurmJob job = a_job();
    job.name = job_name(wrong);
    EXPECT_NO_THROW(slurm_script(find_site("lumi"), job)) << wrong;
    job.account = wrong;
    EXPECT_THROW(slurm_script(find_site("lumi"), job), Error) << wrong;
  }
}

TEST(SlurmScript, RestartsWithinTheJobOnNodesToSpare) {
  SlurmJob job = a_job();
  EXPECT_THAT(slurm_script(find_site("lumi"), job), Not(HasSubstr("supervise")));
  job.restarts = 5;
  EXPECT_THAT(slurm_script(find_site("lumi"), job),
              HasSubstr("trireme supervise --restarts 5 --run \"$run\" -- \\\nsrun --cpus"));
  EXPECT_THAT(slurm_script(find_site("lumi"), job), Not(HasSubstr("--no-kill")));
  job.spare = 1;
  const std::string script = slurm_script(find_site("lumi"), job);
  EXPECT_THAT(script, HasSubstr("#SBATCH --nodes=3\n"));
  EXPECT_THAT(script, HasSubstr("srun --nodes=3 --ntasks=3 --ntasks-per-node=1"));
  EXPECT_THAT(script, HasSubstr("srun --overlap --nodes=2 --ntasks=16 --nodelist='{hosts}'"));
  // Unless told otherwise, SLURM ends a job that loses a node, and a job step waits for that node.
  EXPECT_THAT(script, HasSubstr("#SBATCH --no-kill\n"));
  job.container = "image.sif";
  EXPECT_THROW(slurm_script(find_site("lumi"), job), Error);
  job.container.clear();
  job.restarts = 0;
  EXPECT_THROW(slurm_script(find_site("lumi"), job), Error);
}

// Runs the script with programs that replace SLURM's: `srun` ends as the test requests and writes
// the status of the run, `scontrol` records its calls.
class RunScript : public testing::Test {
 protected:
  RunScript()
      : folder_(fs::path(testing::TempDir()) / ("slurm_script" + std::to_string(::getpid()))) {
    fs::create_directories(folder_ / "bin");
    fs::create_directories(folder_ / "a run");
    program("scontrol", "echo \"$@\" >>\"$HERE/requeued\"");
    program("srun",
            "case \"$*\" in *doctor*) while [ \"$1\" != bash ]; do shift; done; exec \"$@\";; "
            "esac\n"
            "echo \"$@\" >>\"$HERE/started\"\n"
            "[ -z \"$STATE\" ] || echo \"{\\\"state\\\": \\\"$STATE\\\", \\\"saved_step\\\": "
            "$SAVED}\" >\"$HERE/a run/status.json\"\n"
            "exit $CODE");
    program("it's trireme",
            "echo \"asked $*\"\n"
            "[ $1 != supervise ] || { echo \"$@\" >>\"$HERE/started\"; cat \"$7\"; }\n"
            "exit ${DOCTOR:-0}");
    write_script(own_job());
  }
  SlurmJob own_job() const {
    SlurmJob job = a_job();
    job.program = "it's trireme";
    job.run_dir = (folder_ / "a run").string();
    return job;
  }
  void write_script(const SlurmJob& job) const {
    std::ofstream(folder_ / "job.sh") << slurm_script(find_site("lumi"), job);
  }
  std::string output() const {
    std::ostringstream out;
    out << std::ifstream(folder_ / "out").rdbuf();
    return out.str();
  }
  ~RunScript() override { fs::remove_all(folder_); }

  void program(const std::string& name, const std::string& body) {
    std::ofstream(folder_ / "bin" / name) << "#!/bin/sh\n" << body << "\n";
    fs::permissions(folder_ / "bin" / name, fs::perms::owner_all);
  }
  int run(const std::string& environment) const {
    const std::string here = folder_.string();
    const int status = std::system(
        ("cd " + here + " && HERE=" + here + " PATH=" + here + "/bin:$PATH SLURM_JOB_ID=7 " +
         "SLURMD_NODENAME=n7 SLURM_CPUS_PER_TASK=7 " + environment + " bash job.sh >out 2>&1")
            .c_str());
    return WEXITSTATUS(status);
  }
  int lines_of(const std::string& name) const {
    std::ifstream file(folder_ / name);
    int count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }
  fs::path folder_;
};

TEST_F(RunScript, StartsAgainUntilTheRunIsDone) {
  EXPECT_EQ(run("CODE=3 STATE=interrupted SAVED=100"), 3);
  EXPECT_EQ(lines_of("requeued"), 1);
  EXPECT_EQ(run("CODE=0 STATE=stopped SAVED=200"), 0);  // as planned, with steps remaining
  EXPECT_EQ(lines_of("requeued"), 2);
  EXPECT_EQ(run("CODE=0 STATE=done SAVED=300"), 0);
  EXPECT_EQ(lines_of("requeued"), 2);
  EXPECT_EQ(lines_of("started"), 3);
}

TEST_F(RunScript, DoesNotStartAgainWithoutProgress) {
  EXPECT_EQ(run("CODE=3 STATE=interrupted SAVED=100"), 3);
  EXPECT_EQ(run("CODE=3 STATE=interrupted SAVED=100"), 1);
  EXPECT_EQ(lines_of("requeued"), 1);
}

TEST_F(RunScript, EndsWithTheCodeOfAFailure) {
  EXPECT_EQ(run("CODE=2 STATE=failed SAVED=0"), 2);
  EXPECT_EQ(lines_of("requeued"), 0);
}

// srun kills ranks that outlive the first one to end, and its exit code shows that.
TEST_F(RunScript, StartsAgainWhereRanksWereKilledAfterTheySaved) {
  EXPECT_EQ(run("CODE=137 STATE=interrupted SAVED=100"), 137);
  EXPECT_EQ(lines_of("requeued"), 1);
}

// The status.json of an earlier start is ignored.
TEST_F(RunScript, EndsWhereAStartFailsBeforeItsFirstWord) {
  EXPECT_EQ(run("CODE=3 STATE=interrupted SAVED=100"), 3);
  EXPECT_EQ(run("CODE=2"), 2);
  EXPECT_EQ(lines_of("requeued"), 1);
}

TEST_F(RunScript, DoesNotTrainOnNodesThatFailTheCheck) {
  EXPECT_EQ(run("DOCTOR=1 CODE=0 STATE=done SAVED=1"), 1);
  EXPECT_THAT(output(), HasSubstr(": asked doctor --device hip\n"));  // after the node's name
  EXPECT_EQ(lines_of("started"), 0);
}

TEST_F(RunScript, GivesTheSupervisorTheNodesThatPassTheCheck) {
  SlurmJob job = own_job();
  job.restarts = 5;
  job.spare = 1;
  write_script(job);
  EXPECT_EQ(run("DOCTOR=0"), 0);
  EXPECT_EQ(lines_of("started"), 1);
  EXPECT_THAT(output(), HasSubstr("\nn7\n"));
  EXPECT_EQ(run("DOCTOR=1"), 1);
  EXPECT_THAT(output(), Not(HasSubstr("\nn7\n")));
}

}  // namespace
}  // namespace trireme
