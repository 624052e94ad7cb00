// Tests of launcher detection, and that a single process runs without MPI.
#include "comm/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "base/error.h"
#include "comm/launch_advice.h"

namespace trireme {
namespace {

using Variables = std::map<std::string, std::string>;

GetVariable reader(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

LaunchInfo discover(const Variables& variables) {
  return discover_launch(reader(variables));
}

TEST(LaunchInfo, IsReadFromWhoeverStartedTheProcess) {
  EXPECT_EQ(discover({}).size, 1);
  const LaunchInfo mpirun =
      discover({{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_RANK", "3"}});
  EXPECT_EQ(mpirun.rank, 3);
  EXPECT_EQ(mpirun.size, 8);
  EXPECT_EQ(mpirun.launcher, "mpirun (Open MPI)");
  EXPECT_EQ(discover({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}).rank, 1);
  const LaunchInfo srun = discover({{"SLURM_STEP_NUM_TASKS", "16"}, {"SLURM_PROCID", "15"}});
  EXPECT_EQ(srun.rank, 15);
  EXPECT_EQ(srun.size, 16);
}

// MPICH's mpirun starts its helpers with srun under SLURM: their variables stay visible.
TEST(LaunchInfo, TheInnermostLauncherCounts) {
  const Variables step = {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}};
  Variables mpich = step, open_mpi = step;
  mpich.merge(Variables{{"PMI_SIZE", "8"}, {"PMI_RANK", "5"}});
  open_mpi.merge(Variables{{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_RANK", "6"}});
  EXPECT_EQ(discover(mpich).rank, 5);
  EXPECT_EQ(discover(open_mpi).rank, 6);
}

TEST(LaunchInfo, ABatchScriptIsOneProcess) {
  EXPECT_EQ(discover({{"SLURM_NTASKS", "64"}, {"SLURM_PROCID", "0"}}).size, 1);
}

// Each of these processes would train on its own, on the same files.
TEST(LaunchInfo, RefusesTheProcessesOfTorchrun) {
  const std::vector<Variables> several = {
      {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}, {"TORCHELASTIC_RUN_ID", "x"}},
      {{"WORLD_SIZE", "16"}},
      {{"NNODES", "2"}, {"NODE_RANK", "0"}},
      {{"NODE_RANK", "1"}},
      {{"MASTER_ADDR", "node7"}, {"NODE_RANK", "0"}},
      {{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}}};
  for (const Variables& variables : several) {
    EXPECT_THAT([&] { discover(variables); },
                testing::ThrowsMessage<Error>(testing::AllOf(testing::HasSubstr("mpirun -n"),
                                                             testing::HasSubstr("srun -n"),
                                                             testing::HasSubstr("unset"))));
  }
  EXPECT_THAT([&] { discover(several[0]); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("WORLD_SIZE=4")));
  EXPECT_THAT(
      [&] {
        discover({{"MASTER_ADDR", "node7"}, {"NNODES", "4"}, {"NODE_RANK", "2"}});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr(
          "mpirun -n N --hostfile HOSTS (a file with the names of the 4 hosts")));
  for (const Variables& alone :
       {Variables{{"WORLD_SIZE", "1"}, {"RANK", "0"}}, Variables{{"MASTER_ADDR", "localhost"}},
        Variables{{"MASTER_ADDR", ""}}, Variables{{"MASTER_ADDR", "node7"}, {"WORLD_SIZE", "1"}},
        Variables{{"NNODES", "1"}, {"NODE_RANK", "0"}, {"MASTER_ADDR", "node7"}}}) {
    EXPECT_EQ(discover(alone).size, 1);
  }
  // Inside the environment of a real launcher, leftover variables do not matter.
  Variables mpi = several[0];
  mpi.merge(Variables{{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_RANK", "3"}});
  EXPECT_EQ(discover(mpi).size, 8);
}

TEST(LaunchInfo, RefusesNonsense) {
  EXPECT_THROW(discover({{"PMI_SIZE", "many"}, {"PMI_RANK", "0"}}), Error);
  EXPECT_THROW(discover({{"PMI_SIZE", "4"}}), Error);
  EXPECT_THROW(discover({{"PMI_SIZE", "4"}, {"PMI_RANK", "4"}}), Error);
  EXPECT_THROW(discover({{"PMI_SIZE", ""}, {"PMI_RANK", "0"}}), Error);
}

// Variables that srun --mpi=none, pmi2 and pmix set.
TEST(LaunchAdvice, WarnsWhereOpenMpiWouldEndTheProcess) {
  const auto warning = [](const std::string& library, Variables variables) {
    variables.merge(Variables{{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}});
    return srun_warning(library, reader(variables));
  };
  const std::string open_mpi = "Open MPI v4.1.4", mpich = "MPICH 4.0.2";
  EXPECT_THAT(warning(open_mpi, {}), testing::HasSubstr("--mpi=pmix"));
  EXPECT_NE(warning(open_mpi, {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), "");
  EXPECT_EQ(warning(open_mpi, {{"PMIX_RANK", "0"}}), "");
  EXPECT_EQ(warning(mpich, {}), "");  // MPICH reports afterwards that it is alone, and then we warn
  EXPECT_EQ(warning(open_mpi, {{"OMPI_COMM_WORLD_SIZE", "2"}}), "");
  EXPECT_EQ(srun_warning(open_mpi, reader({})), "");
}

TEST(LaunchAdvice, NamesTheWayOutOfAStepWithoutPmi) {
  const Variables step = {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}};
  const std::string text = launcher_mismatch(discover(step), "MPICH 4.0.2", 1, reader(step));
  EXPECT_THAT(text, testing::HasSubstr("srun (SLURM) started 2 processes"));
  EXPECT_THAT(text, testing::HasSubstr("MPICH 4.0.2"));
  EXPECT_THAT(text, testing::HasSubstr("sees 1"));
  EXPECT_THAT(text, testing::HasSubstr("--mpi=pmi2"));
  EXPECT_THAT(text, testing::HasSubstr("unset SLURM_STEP_NUM_TASKS"));
}

TEST(Transport, AloneNeedsNoMpi) {
  const auto transport = open_transport({});
  EXPECT_EQ(transport->place().size, 1);
  EXPECT_EQ(transport->world().size(), 1);
  float x = 4;
  transport->world().all_reduce(&x, 1, DType::f32, Reduction::sum, "alone").wait();
  EXPECT_EQ(x, 4);
  EXPECT_EQ(transport->group({0}, "tp")->size(), 1);
  check_agreement(transport->world(), {{"version", 1}});
  std::ostringstream maps;
  maps << std::ifstream("/proc/self/maps").rdbuf();
  EXPECT_THAT(maps.str(), testing::Not(testing::HasSubstr("libmpi")));
}

// One rank of two, whose abort() can be observed.
class Watched final : public Transport {
 public:
  struct Aborted {
    int exit_code;
    std::string message;
  };
  const Place& place() const override { return place_; }
  Communicator& world() override { throw std::logic_error("not asked for"); }
  std::unique_ptr<Communicator> group(std::vector<int>, std::string) override { return nullptr; }
  void set_listener(OperationListener*) override {}
  void set_activity(ActivitySource) override {}
  void set_last_output(LastOutput) override {}
  void leave() override { left = true; }
  void abort(int exit_code, const std::string& message) override {
    throw Aborted{exit_code, message};
  }

  bool left = false;

 private:
  Place place_{.size = 2};
};

TEST(Transport, RanksLeaveTogetherUnlessOneFails) {
  Watched transport;
  run_guarded(transport, [] {});
  EXPECT_TRUE(transport.left);
  transport.left = false;
  EXPECT_THROW(run_guarded(transport, [] { fail("broken"); }), Watched::Aborted);
  EXPECT_FALSE(transport.left);
}

Watched::Aborted aborted_by(const std::function<void()>& body) {
  Watched transport;
  try {
    run_guarded(transport, body);
  } catch (const Watched::Aborted& aborted) {
    return aborted;
  }
  return {0, ""};
}

TEST(Transport, GuardedErrorsEndTheJobAsTheyEndAProcessAlone) {
  const auto file_system = [](std::errc code) {
    return aborted_by(
        [&] { throw std::filesystem::filesystem_error("", "place", make_error_code(code)); });
  };
  EXPECT_EQ(aborted_by([] {}).exit_code, 0);
  EXPECT_EQ(aborted_by([] { fail_input("wrong key"); }).exit_code, 2);
  EXPECT_EQ(aborted_by([] { throw std::bad_alloc(); }).message, "out of memory");
  EXPECT_EQ(file_system(std::errc::filename_too_long).exit_code, 2);
  EXPECT_EQ(file_system(std::errc::no_space_on_device).exit_code, 1);
  EXPECT_EQ(file_system(std::errc::no_space_on_device).message,
            "cannot use 'place': No space left on device");
}

TEST(Transport, GuardedErrorsPassThroughWhereThereIsNobodyElse) {
  const auto transport = open_transport({});
  EXPECT_THROW(run_guarded(*transport, [] { fail_input("wrong key"); }), Error);
}

}  // namespace
}  // namespace trireme
