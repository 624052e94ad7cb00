// Tests of machines by name and by file, and of plans for machines other than this one.
#include "plan/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "plan/layout_plan.h"
#include "plan/measure_machine.h"
#include "plan/small_config.h"

namespace trireme {
namespace {

std::string error_of(const std::string& name_or_file) {
  try {
    find_machine(name_or_file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "";
}

std::string file_with(const std::string& text) {
  const std::string path = testing::TempDir() + "machine.toml";
  std::ofstream(path) << text;
  return path;
}

TEST(Machine, IsKnownByName) {
  for (const std::string& name : machine_names()) EXPECT_EQ(error_of(name), "");
  EXPECT_EQ(find_machine("cpu-amx").target.isa, cpu::Isa::amx);
  EXPECT_TRUE(find_machine("cpu-avx512-bf16").target.bf16_dot_products);
  EXPECT_FALSE(find_machine("cpu-avx2").target.bf16_dot_products);
  EXPECT_EQ(find_machine("").target.isa, cpu::this_machine().isa);
}

TEST(Machine, IsReadFromAFile) {
  EXPECT_EQ(find_machine(file_with("device = \"hip\"\n")).target.device, DeviceKind::hip);
  const Target target = find_machine(file_with("device = \"cpu\"\nisa = \"amx\"\n")).target;
  EXPECT_EQ(target.isa, cpu::Isa::amx);
  EXPECT_TRUE(target.bf16_dot_products);  // all of them have these
}

TEST(Machine, WhatIsWrongIsNamed) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of("mars"), HasSubstr("neither a file nor a known machine"));
  EXPECT_THAT(error_of("mars"), HasSubstr("cpu-avx2"));
  EXPECT_THAT(error_of(file_with("device = \"cuda\"\nisa = \"amx\"")),
              HasSubstr("isa applies to CPUs, but device is cuda"));
  EXPECT_THAT(error_of(file_with("device = \"tpu\"")), HasSubstr("device is 'tpu'"));
  EXPECT_THAT(error_of(file_with("device = \"cpu\"\nisa = \"sse\"")), HasSubstr("isa is 'sse'"));
  EXPECT_THAT(error_of(file_with("device = \"cpu\"\nisa = 3")), HasSubstr("isa is"));
  EXPECT_THAT(error_of(file_with("device = \"cpu\"")), HasSubstr("must be set"));
  EXPECT_THAT(error_of(file_with("speed = 3")), HasSubstr("unknown key 'speed'"));
  EXPECT_THAT(error_of(file_with("device = ")), HasSubstr("line 1"));
  EXPECT_THAT(error_of(file_with("threads = 0")), HasSubstr("from 1 to 4096"));
  EXPECT_THAT(error_of(file_with("device = \"cpu\"\nisa = \"avx2\"\nbf16_dot_products = true")),
              HasSubstr("does not support bf16_dot_products"));
  EXPECT_THAT(error_of(file_with("bf16_dot_products = 1")), HasSubstr("true or false"));
}

// Returns the error for a machine file with one piece of text replaced.
std::string changed(const std::string& what, const std::string& by) {
  const std::string path = testing::TempDir() + "changed.toml";
  std::string text = machine_text("lumi-g");
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  text.replace(at, what.size(), by);
  std::ofstream(path) << text;
  return error_of(path);
}

TEST(Machine, HasFiguresOfItsSpeed) {
  const Machine lumi = find_machine("lumi-g");
  ASSERT_TRUE(lumi.speed.has_value());
  EXPECT_EQ(lumi.name, "lumi-g");
  EXPECT_EQ(lumi.target.device, DeviceKind::hip);
  EXPECT_DOUBLE_EQ(lumi.speed->bf16.peak, 191.5e12);
  EXPECT_EQ(lumi.speed->devices, 8);
  EXPECT_DOUBLE_EQ(lumi.speed->host_bytes, 515e9);
  EXPECT_FALSE(lumi.speed->fits.empty());
  EXPECT_FALSE(find_machine("cpu-avx2").speed.has_value());
}

// Measured values survive a round trip through the file, up to their printed digits.
TEST(Machine, MeasuredOnesAreReadBack) {
  Machine measured{"mine", cpu::this_machine(), MachineSpeed{}};
  measured.target.threads = 3;
  MachineSpeed& speed = *measured.speed;
  speed.memory_bytes = 16e9;
  speed.memory_rate = speed.host_rate = 1.25e10;
  speed.bf16 = {8e10, 8e10};
  speed.fp32 = {1.25e11, 1.25e11};
  speed.half_depth = 37.5;
  speed.attention = 0.75;
  speed.attention_grad = 0.625;
  speed.launch = 3.25e-6;
  speed.devices = 2;
  speed.bus = {{2, 1.5e9}};
  speed.pair = 3e9;
  speed.node_latency = 1.5e-6;
  speed.node_half = 2.5e6;
  speed.bf16.input_grad = 0.875;
  speed.fp32.weight_grad = 1.125;
  speed.fits = {{"trireme", 0.875, "a step of a small GPT in bf16, 8.104 s", 0.75}};
  const Machine read = find_machine(file_with(machine_file(measured)));
  ASSERT_TRUE(read.speed.has_value());
  EXPECT_EQ(machine_file(read), machine_file(measured));
  EXPECT_EQ(read.target.isa, measured.target.isa);
  EXPECT_EQ(read.target.threads, 3);
  EXPECT_EQ(read.speed->fp32.ceiling, 1.25e11);
  EXPECT_EQ(read.speed->bus[0].rate, 1.5e9);
  EXPECT_EQ(read.speed->fits[0].efficiency, 0.875);
  EXPECT_EQ(read.speed->fits[0].wide_efficiency, 0.75);
  EXPECT_EQ(read.speed->bf16.input_grad, 0.875);
  EXPECT_EQ(read.speed->fp32.weight_grad, 1.125);
}

TEST(Machine, RefusesFiguresThatAreMissingOrAbsurd) {
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_THAT(changed("rate = 1.3e12", ""), HasSubstr("rate is missing from [memory]"));
  EXPECT_THAT(changed("rate = 1.3e12", "rate = 1.3"),
              AllOf(HasSubstr("rate of [memory] is 1.3"), HasSubstr("bytes per second")));
  EXPECT_THAT(changed("rate = 1.3e12", "rate = nan"), HasSubstr("rate of [memory] is nan"));
  EXPECT_THAT(changed("rate = 1.3e12", "rate = -1e12"), HasSubstr("it must be from"));
  EXPECT_THAT(changed("rate = 1.3e12", "rate = \"fast\""), HasSubstr("must be a number"));
  EXPECT_THAT(
      changed("host_bytes = 515e9", "host_bytes = 515"),
      AllOf(HasSubstr("host_bytes of [memory] is 515"), HasSubstr("of the host of a node")));
  EXPECT_EQ(changed("host_bytes = 515e9", ""), "");  // unknown
  EXPECT_THAT(changed("device = \"hip\"", "device = \"cpu\"\nisa = \"avx2\""),
              HasSubstr("host_bytes of [memory] applies to GPUs"));
  EXPECT_THAT(changed("bf16_ceiling = 147.0e12", "bf16_ceiling = 200e12"),
              HasSubstr("above bf16_peak"));
  EXPECT_THAT(changed("bf16_ceiling = 147.0e12", ""), HasSubstr("must have both"));
  EXPECT_THAT(changed("[launch]", "[lunch]"), HasSubstr("unknown key 'lunch'"));
  EXPECT_THAT(changed("host = 3e-6", "hots = 3e-6"), HasSubstr("host is missing from [launch]"));
  EXPECT_THAT(changed("host = 3e-6", "host = 3e-6\nhots = 1"), HasSubstr("unknown key 'hots'"));
  EXPECT_THAT(changed("[4, 75e9]", "[1, 75e9]"), HasSubstr("bus"));
  EXPECT_THAT(changed("[4, 75e9]", "[2, 75e9]"), HasSubstr("must be in ascending order"));
  EXPECT_THAT(changed("[4, 75e9]", "[4]"), HasSubstr("must have 2 numbers"));
  EXPECT_THAT(changed("efficiency = ", "efficiency = 7"), HasSubstr("efficiency of [fitted."));
  EXPECT_THAT(changed("efficiency = ", "fp32_efficiency = 0\nefficiency = "),
              HasSubstr("fp32_efficiency of [fitted."));
  EXPECT_THAT(changed("band = 0.", "band = 2."), HasSubstr("band of [fitted."));
  EXPECT_THAT(changed("units = ", "bf16_input_grad = 20\nunits = "),
              HasSubstr("bf16_input_grad of [products] is 20"));
}

// Kernel scratch sizes are those of the target machine, not of the planning one.
TEST(Machine, SizesScratch) {
  const Config config = small({"model.hidden_size=128", "model.seq_length=128"});
  const auto planned = [&](const std::string& machine) {
    return to_text(plan_layout(config, 1, find_machine(machine).target).ranks[0].memory);
  };
  EXPECT_EQ(planned("cpu-avx512"), planned("cpu-avx512"));
  EXPECT_NE(planned("cpu-amx"), planned("cpu-avx2"));
}

}  // namespace
}  // namespace trireme
