// Tests that one program gives the same numbers under the launchers of both MPI ABIs.
#include "jobs.h"

namespace trireme::testing_cli {
namespace {

class OtherMpi : public Jobs, public testing::WithParamInterface<const char*> {};

TEST_P(OtherMpi, GivesTheSameNumbers) {
  const std::string launcher = std::string("/usr/bin/mpiexec.") + GetParam();
  if (::access(launcher.c_str(), X_OK) != 0) GTEST_SKIP() << launcher << " was not found";
  const Layout layout{2, "parallel.zero=2 parallel.numerics=exact"};
  ASSERT_EQ(train_on("usual", layout, "train.iters=4 train.eval_interval=0").code, 0)
      << read("usual.out");
  Program program(job_arguments("other", layout, "train.iters=4 train.eval_interval=0"),
                  path("other.out"),
                  {{"TRIREME_THREADS", "1"},
                   {"TRIREME_MPIRUN", launcher},
                   {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                   {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
  EXPECT_EQ(wait_for(program, 600).code, 0) << read("other.out");
  EXPECT_EQ(metrics("other"), metrics("usual"));
}

INSTANTIATE_TEST_SUITE_P(Interfaces, OtherMpi, testing::Values("mpich", "openmpi"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace trireme::testing_cli
