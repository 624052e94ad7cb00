// Tests of the vendors' plug-ins on a machine without their GPUs: they load, and report that in one
// message.
#include <gmock/gmock.h>

#include <algorithm>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

struct Vendor {
  const char *device, *plugin, *driver_file, *message;
};

class NoGpu : public Workspace, public testing::WithParamInterface<Vendor> {
 protected:
  void SetUp() override {
    if (!fs::exists(GetParam().plugin)) GTEST_SKIP() << GetParam().plugin << " was not built";
    if (fs::exists(GetParam().driver_file)) GTEST_SKIP() << "this machine has the vendor's driver";
  }
};

TEST_P(NoGpu, StopsTheRunWithOneMessage) {
  prepare_data();
  const Outcome outcome = train("run", {std::string("run.device=") + GetParam().device});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, testing::HasSubstr(std::string("trireme: ") + GetParam().message));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << outcome.out;
}

TEST_P(NoGpu, IsAFaultToTheDoctorWhoIsAskedForIt) {
  const Outcome outcome = run({"doctor", "--device", GetParam().device});
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, testing::HasSubstr(GetParam().message));
}

const Vendor vendors[] = {
    {"cuda", TRIREME_LIB "/libtrireme_cuda.so", "/dev/nvidiactl", "no NVIDIA driver is loaded"},
    {"hip", TRIREME_LIB "/libtrireme_hip.so", "/dev/kfd", "no AMD driver is loaded"},
};
INSTANTIATE_TEST_SUITE_P(Plugins, NoGpu, testing::ValuesIn(vendors),
                         [](const auto& instance) { return instance.param.device; });

}  // namespace
}  // namespace trireme::testing_cli
