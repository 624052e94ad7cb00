// Tests of `trireme doctor` on this machine, and with problems that it should report.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class Doctor : public Workspace {
 protected:
  std::map<std::string, nlohmann::json> findings(const Program::Environment& environment) const {
    const Outcome outcome = run({"doctor", "--json"}, environment);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    return by_name(outcome);
  }

  // Returns the findings on emulated GPUs with this fault, and whether doctor exits with 0.
  std::map<std::string, nlohmann::json> emulated(const char* gpus, const char* fault,
                                                 bool good) const {
    const Outcome outcome =
        run({"doctor", "--json", "--device", "emulated"},
            {{"TRIREME_EMULATED_DEVICES", gpus}, {"TRIREME_EMULATED_FAULT", fault}});
    EXPECT_EQ(outcome.code == 0, good) << outcome.out;
    return by_name(outcome);
  }

 private:
  // Parses the list that doctor printed; the line of its error may come before or after it.
  static std::map<std::string, nlohmann::json> by_name(const Outcome& outcome) {
    const std::size_t begin = outcome.out.find("[{");
    const std::string list = outcome.out.substr(begin, outcome.out.find("}]", begin) + 2 - begin);
    std::map<std::string, nlohmann::json> found;
    for (const auto& finding : nlohmann::json::parse(list)) found[finding.at("what")] = finding;
    return found;
  }
};

TEST_F(Doctor, FindsAMachineThatComputesRight) {
  const Outcome outcome = run({"doctor"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("avx2 right"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("WRONG")));
  EXPECT_EQ(findings({}).at("matrix products")["state"], "good");
}

TEST_F(Doctor, SaysWhatIsSetAgainstTheMachine) {
  const auto found = findings(
      {{"TRIREME_THREADS", "64"}, {"TRIREME_ISA", "avx2"}, {"TRIREME_MPIRUN", path("mpirun")}});
  EXPECT_EQ(found.at("instruction set")["found"], "avx2");
  EXPECT_EQ(found.at("matrix products")["found"], "avx2 right");
  EXPECT_EQ(found.at("threads")["state"], "note");
  if (found.at("MPI")["found"] != "not found") {
    EXPECT_THAT(found.at("MPI")["advice"].get<std::string>(), HasSubstr(path("mpirun")));
  }
}

// A library that loads does not guarantee that a job starts.
TEST_F(Doctor, StartsTwoRanksOrSaysThatItDidNot) {
  const auto good = findings({});
  if (good.at("MPI")["found"] == "not found") GTEST_SKIP() << "MPI was not found";
  EXPECT_EQ(good.at("two ranks")["state"], "good");
  EXPECT_THAT(good.at("two ranks")["found"].get<std::string>(), HasSubstr("started and connected"));

  const auto in_a_step = findings({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}});
  EXPECT_THAT(in_a_step.at("two ranks")["found"].get<std::string>(),
              HasSubstr("not started: this process is itself part of a job"));

  // One launcher exits immediately; the other starts two processes that do not know each other.
  for (const auto& [body, words] :
       {std::pair{"echo '-----'; echo 'PML ucx cannot be selected' >&2; exit 5",
                  "exit code 5: PML ucx"},
        {"shift 2; \"$@\" && \"$@\"", "its MPI is not the one this build uses"}}) {
    write("launcher", std::string("#!/bin/sh\n") + body + "\n");
    fs::permissions(path("launcher"), fs::perms::owner_all);
    const Outcome outcome = run({"doctor"}, {{"TRIREME_MPIRUN", path("launcher")}});
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(words));
  }
}

TEST_F(Doctor, NoticesVariablesThatAreMisspelt) {
  const auto found =
      findings({{"TRIREME_THREAD", "4"}, {"TRIREME_SOMETHING", "1"}}).at("variables");
  EXPECT_EQ(found["state"], "note");
  EXPECT_THAT(found["advice"].get<std::string>(),
              testing::AllOf(HasSubstr("TRIREME_THREAD is not a variable of Trireme: did you mean "
                                       "TRIREME_THREADS?"),
                             HasSubstr("TRIREME_SOMETHING is not")));
  // Every command warns about variables that resemble a known one.
  const Outcome outcome = run({"config", "--presets"}, {{"TRIREME_ISAS", "avx2"}});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out,
              HasSubstr("TRIREME_ISAS is set but has no effect: did you mean TRIREME_ISA?"));
}

TEST_F(Doctor, TakesAnEmptyMpirunForNone) {
  EXPECT_EQ(findings({{"TRIREME_MPIRUN", ""}}).at("MPI"), findings({}).at("MPI"));
}

TEST_F(Doctor, SaysThatVariablesOfGpusHaveNoEffect) {
  const auto gpu = findings({{"CUDA_VISIBLE_DEVICES", "0,1"}, {"NCCL_DEBUG", "INFO"}}).at("GPU");
  EXPECT_EQ(gpu["state"], "note");
  EXPECT_THAT(gpu["advice"].get<std::string>(),
              testing::AllOf(HasSubstr("CUDA_VISIBLE_DEVICES=0,1"), HasSubstr("NCCL_DEBUG=INFO")));
}

TEST_F(Doctor, ChecksAGpu) {
  const auto found = emulated("1", "", true);
  EXPECT_EQ(found.at("GPU (emulated)")["found"], "1 GPU, emulated");
  EXPECT_EQ(found.at("GPU 0")["state"], "good");
  EXPECT_EQ(found.at("GPU products")["found"], "fp32 right, bf16 right, fp16 right");
  EXPECT_FALSE(found.contains("GPU links"));
  EXPECT_EQ(found.at("GPU matrix products")["state"], "note");
  EXPECT_EQ(found.at("GPU collectives")["found"], "a substitute for NCCL");
}

TEST_F(Doctor, MissesALibraryOnAGpuThatNeedsIt) {
  const auto products = emulated("1", "large", false).at("GPU matrix products");
  EXPECT_EQ(products["state"], "fault");
  EXPECT_THAT(products["advice"].get<std::string>(),
              HasSubstr("the own kernel is used instead, which is several times slower"));
}

TEST_F(Doctor, MissesCollectivesWhereThereAreSeveralGpus) {
  for (const bool several : {false, true}) {
    const Outcome outcome =
        run({"doctor", "--device", "emulated"}, {{"TRIREME_EMULATED_DEVICES", several ? "2" : "1"},
                                                 {"TRIREME_EMULATED_COLLECTIVES", "none"}});
    EXPECT_EQ(outcome.code, several ? 1 : 0) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("TRIREME_EMULATED_COLLECTIVES is none"));
  }
}

TEST_F(Doctor, SaysWhereItHasFoundALibrary) {
  const Outcome outcome =
      run({"doctor", "--device", "emulated"}, {{"TRIREME_EMULATED_LIBRARY", "1.0"}});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("a substitute library 1.0 in /emulated/libsubstitute.so"));
}

TEST_F(Doctor, SaysThatTheBuildHasNoKernelsForTheGpu) {
  const Outcome outcome =
      run({"doctor", "--device", "emulated"}, {{"TRIREME_EMULATED_FAULT", "no kernels"}});
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("this build has no kernels for the emulated GPU"));
}

TEST_F(Doctor, NamesTheSlowLinkOfEightGpus) {
  const auto found = emulated("8", "slow link", false);
  EXPECT_EQ(found.at("GPU 7")["state"], "good");
  EXPECT_EQ(found.at("GPU links")["state"], "fault");
  EXPECT_THAT(found.at("GPU links")["advice"].get<std::string>(),
              HasSubstr("these are slow: 2 to 5: 12.5 GB/s;"));
  EXPECT_EQ(emulated("8", "", true).at("GPU links")["found"], "50 GB/s direct");
}

TEST_F(Doctor, FindsAGpuThatComputesWrong) {
  const auto products = emulated("1", "wrong results", false).at("GPU products");
  EXPECT_EQ(products["state"], "fault");
  EXPECT_EQ(products["found"], "fp32 WRONG, bf16 WRONG, fp16 WRONG");
}

TEST_F(Doctor, FindsAGpuThatIsSlowedDown) {
  const auto found = emulated("2", "heat", false);
  EXPECT_EQ(found.at("GPU 0")["state"], "fault");
  EXPECT_EQ(found.at("GPU 1")["state"], "good");
}

TEST_F(Doctor, SaysThatThereIsNoDriver) {
  const auto gpu = emulated("1", "no driver", false).at("GPU (emulated)");
  EXPECT_EQ(gpu["state"], "fault");
  EXPECT_EQ(gpu["advice"], "no driver is loaded on this machine");
}

TEST_F(Doctor, SaysThatThereIsNoSuchGpuPart) {
  const Outcome outcome = run({"doctor", "--device", "hip"});
  if (outcome.code == 1) GTEST_SKIP() << "this build has a part for AMD's GPUs";
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("this build of trireme has no plug-in for it"));
}

TEST_F(Doctor, SeesTheVariablesOfTorchrun) {
  const auto job = findings({{"WORLD_SIZE", "4"}, {"RANK", "0"}}).at("job");
  EXPECT_EQ(job["state"], "note");
  EXPECT_THAT(job["advice"].get<std::string>(), HasSubstr("mpirun -n 4"));
}

// A session folder of a process that cannot exist; the number exceeds every limit of process IDs.
TEST_F(Doctor, OffersToRemoveWhatKilledJobsLeft) {
  const std::string session = "ompi.host." + std::to_string(::geteuid()) + "/pid.2000000000";
  fs::create_directories(path(session + "/contact"));
  fs::create_directories(path("ompi.host." + std::to_string(::geteuid()) + "/pid.1"));
  const Program::Environment here = {{"TMPDIR", folder_.string()}};
  const auto found = findings(here).at("MPI leftovers");
  EXPECT_EQ(found["state"], "note");
  EXPECT_THAT(found["advice"].get<std::string>(),
              testing::AllOf(HasSubstr("--clean"), HasSubstr(path(session)),
                             testing::Not(HasSubstr("/pid.1 "))));
  EXPECT_EQ(run({"doctor", "--clean"}, here).code, 0);
  EXPECT_FALSE(fs::exists(path(session)));
  EXPECT_TRUE(fs::exists(path("ompi.host." + std::to_string(::geteuid()) + "/pid.1")));
}

TEST_F(Doctor, SeesItsPlaceInAJob) {
  const auto found = findings({{"PMI_RANK", "2"}, {"PMI_SIZE", "8"}});
  EXPECT_THAT(found.at("job")["found"].get<std::string>(), HasSubstr("process 2 of 8"));
}

}  // namespace
}  // namespace trireme::testing_cli
