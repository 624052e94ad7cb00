// Machines by name and by file, and plans for machines other than this one.
#include "plan/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "plan/layout_plan.h"
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
  EXPECT_EQ(find_machine("cpu-amx").isa, cpu::Isa::amx);
  EXPECT_TRUE(find_machine("cpu-avx512-bf16").bf16_dot_products);
  EXPECT_FALSE(find_machine("cpu-avx2").bf16_dot_products);
  EXPECT_EQ(find_machine("").isa, cpu::this_machine().isa);
}

TEST(Machine, IsReadFromAFile) {
  EXPECT_EQ(find_machine(file_with("device = \"hip\"\n")).device, DeviceKind::hip);
  const Target target = find_machine(file_with("device = \"cpu\"\nisa = \"amx\"\n"));
  EXPECT_EQ(target.isa, cpu::Isa::amx);
  EXPECT_TRUE(target.bf16_dot_products);  // all of them have
}

TEST(Machine, WhatIsWrongIsNamed) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of("lumi"), HasSubstr("neither a file nor a machine"));
  EXPECT_THAT(error_of("lumi"), HasSubstr("cpu-avx2"));
  EXPECT_THAT(error_of(file_with("device = \"cuda\"\nisa = \"amx\"")),
              HasSubstr("isa is for CPUs, and the device is cuda"));
  EXPECT_THAT(error_of(file_with("device = \"tpu\"")), HasSubstr("device is 'tpu'"));
  EXPECT_THAT(error_of(file_with("device = \"cpu\"\nisa = \"sse\"")), HasSubstr("isa is 'sse'"));
  EXPECT_THAT(error_of(file_with("device = \"cpu\"\nisa = 3")), HasSubstr("isa is"));
  EXPECT_THAT(error_of(file_with("device = \"cpu\"")), HasSubstr("must be set"));
  EXPECT_THAT(error_of(file_with("speed = 3")), HasSubstr("unknown key 'speed'"));
  EXPECT_THAT(error_of(file_with("device = ")), HasSubstr("line 1"));
  EXPECT_THAT(error_of(file_with("threads = 0")), HasSubstr("from 1 to 4096"));
  EXPECT_THAT(error_of(file_with("device = \"cpu\"\nisa = \"avx2\"\nbf16_dot_products = true")),
              HasSubstr("have no bf16_dot_products"));
  EXPECT_THAT(error_of(file_with("bf16_dot_products = 1")), HasSubstr("true or false"));
}

// The scratch of kernels is that of the machine that runs, not of the one that plans.
TEST(Machine, SizesScratch) {
  const Config config = small({"model.hidden_size=128", "model.seq_length=128"});
  const auto planned = [&](const std::string& machine) {
    return to_text(plan_layout(config, 1, find_machine(machine)).ranks[0].memory);
  };
  EXPECT_EQ(planned("cpu-avx512"), planned("cpu-avx512"));
  EXPECT_NE(planned("cpu-amx"), planned("cpu-avx2"));
}

}  // namespace
}  // namespace trireme
