// Tests of the program as a user runs it, with the substitute as its NVIDIA plug-in: training on
// compiled kernels, and errors of a driver or a GPU.
#include <gmock/gmock.h>

#include <cmath>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* cuda = "run.device=cuda";

class CudaProgram : public Workspace {
 protected:
  void SetUp() override {
    prepare_data();
    write("run.toml", configuration());
  }

  static std::vector<std::string> short_run(std::vector<std::string> more) {
    more.insert(more.end(), {"train.iters=6", "train.global_batch_size=2", "train.eval_interval=3",
                             "optimizer.warmup_iters=2"});
    return more;
  }
  // Expects a failed run with exit code 1 and a single message.
  void expect_failed(const Outcome& outcome, const std::string& message) const {
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr(message), Not(HasSubstr("terminate"))));
    std::size_t errors = 0;
    for (std::size_t at = 0; (at = outcome.out.find("error", at)) != std::string::npos; ++at)
      ++errors;
    EXPECT_LE(errors, 2U) << outcome.out;
  }
};

TEST_F(CudaProgram, LearnsAsOnTheCpu) {
  for (const auto& [precision, tolerance] : {std::pair{"fp32", 1e-3}, std::pair{"bf16", 2e-2}}) {
    const std::string as = std::string("run.precision=") + precision;
    const Outcome on_cpu = train(std::string("cpu_") + precision, short_run({as}));
    ASSERT_EQ(on_cpu.code, 0) << on_cpu.out;
    const Outcome on_gpu = train(std::string("gpu_") + precision, short_run({as, cuda}));
    ASSERT_EQ(on_gpu.code, 0) << on_gpu.out;
    const auto expected = values_of(metrics(std::string("cpu_") + precision), "loss");
    const auto found = values_of(metrics(std::string("gpu_") + precision), "loss");
    ASSERT_EQ(expected.size(), found.size());
    ASSERT_FALSE(found.empty());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i] / expected[i], 1, tolerance);
  }
}

TEST_F(CudaProgram, SaysWhatIsWrongWithTheDriver) {
  expect_failed(train("none", short_run({cuda}), {{"TRIREME_PTX_DRIVER", "0"}}),
                "no NVIDIA driver is loaded on this machine");
  expect_failed(
      train("old", short_run({cuda}), {{"TRIREME_PTX_DRIVER", "12040"}}),
      "the NVIDIA driver is too old: it supports CUDA up to 12.4, but this build requires 13.0");
  expect_failed(train("hidden", short_run({cuda}), {{"TRIREME_PTX_DEVICES", "0"}}),
                "no GPU is visible to this process");
}

TEST_F(CudaProgram, SaysThatItHasNoKernelsForTheGpu) {
  expect_failed(train("old_gpu", short_run({cuda}), {{"TRIREME_PTX_ARCHITECTURE", "70"}}),
                "this build has no kernels for PTX interpreter: it was built for ");
}

TEST_F(CudaProgram, SaysThatMemoryIsOut) {
  const Outcome outcome = train("small", short_run({cuda}), {{"TRIREME_PTX_MEMORY", "200000"}});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("the plan needs "));
}

TEST_F(CudaProgram, EndsWithOneMessageWhenTheGpuIsLostAndGoesOnFromTheCheckpoint) {
  const std::vector<std::string> settings = short_run({cuda, "checkpoint.interval=2"});
  const Outcome whole = train("whole", settings);
  ASSERT_EQ(whole.code, 0) << whole.out;
  // The GPU is lost in about the fifth step.
  expect_failed(train("lost", settings, {{"TRIREME_PTX_LOST_AT", "900"}}),
                "this process has lost the GPU");
  const Outcome again = train("lost", settings);
  ASSERT_EQ(again.code, 0) << again.out;
  EXPECT_EQ(metrics("lost"), metrics("whole"));
}

TEST_F(CudaProgram, NamesKernelThreadAndLineOfAFault) {
  expect_failed(train("fault", short_run({cuda}), {{"TRIREME_PTX_PLANT", "AdamStep|, 5;|1|, 15;"}}),
                "PTX line");
}

}  // namespace
}  // namespace trireme::testing_cli
