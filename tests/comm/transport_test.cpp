// Finding the launcher, and that a process alone stays without MPI.
#include "comm/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"

namespace trireme {
namespace {

LaunchInfo discover(std::map<std::string, std::string> variables) {
  return discover_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchInfo, IsReadFromWhoeverStartedTheProcess) {
  EXPECT_EQ(discover({}).size, 1);
  const LaunchInfo mpirun = discover({{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_RANK", "3"}});
  EXPECT_EQ(mpirun.rank, 3);
  EXPECT_EQ(mpirun.size, 8);
  EXPECT_EQ(mpirun.launcher, "mpirun (Open MPI)");
  EXPECT_EQ(discover({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}).rank, 1);
  const LaunchInfo srun = discover({{"SLURM_STEP_NUM_TASKS", "16"}, {"SLURM_PROCID", "15"}});
  EXPECT_EQ(srun.rank, 15);
  EXPECT_EQ(srun.size, 16);
}

TEST(LaunchInfo, ABatchScriptIsOneProcess) {
  EXPECT_EQ(discover({{"SLURM_NTASKS", "64"}, {"SLURM_PROCID", "0"}}).size, 1);
}

TEST(LaunchInfo, RefusesNonsense) {
  EXPECT_THROW(discover({{"PMI_SIZE", "many"}, {"PMI_RANK", "0"}}), Error);
  EXPECT_THROW(discover({{"PMI_SIZE", "4"}}), Error);
  EXPECT_THROW(discover({{"PMI_SIZE", "4"}, {"PMI_RANK", "4"}}), Error);
  EXPECT_THROW(discover({{"PMI_SIZE", ""}, {"PMI_RANK", "0"}}), Error);
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

TEST(Transport, GuardedErrorsPassThroughWhereThereIsNobodyElse) {
  const auto transport = open_transport({});
  EXPECT_THROW(run_guarded(*transport, [] { fail_input("wrong key"); }), Error);
}

}  // namespace
}  // namespace trireme
