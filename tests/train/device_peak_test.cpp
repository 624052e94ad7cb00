// Peaks by device name: the known ones, and silence about all others.
#include "train/device_peak.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

double tflops(const char* name) {
  return device_peak_flops(name, "bf16").value_or(0) / 1e12;
}

TEST(DevicePeak, KnownDevices) {
  EXPECT_DOUBLE_EQ(tflops("NVIDIA A100-SXM4-80GB"), 312);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA A100 80GB PCIe"), 312);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H100 80GB HBM3"), 989);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H100 NVL"), 835);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H100 PCIe"), 756);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H100 NVL 94GB HBM3"), 835);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H200"), 989);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA B200"), 2250);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA GB200"), 2500);
  EXPECT_DOUBLE_EQ(tflops("AMD Instinct MI250X"), 191.5);
  EXPECT_DOUBLE_EQ(tflops("AMD Instinct MI300X"), 1300);
  EXPECT_DOUBLE_EQ(tflops("AMD Instinct MI355X"), 2500);
}

TEST(DevicePeak, NeverGuesses) {
  for (const char* name :
       {"", "NVIDIA GH200 480GB", "NVIDIA H20", "NVIDIA H100", "NVIDIA A100X", "Quadro RTX 6000",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A100-SXM-64GB", "AMD Instinct MI250",
        "NVIDIA H200 NVL", "Intel(R) Xeon(R) Platinum 8488C", "AMD Instinct MI300A"}) {
    EXPECT_FALSE(device_peak_flops(name, "bf16")) << name;
  }
  EXPECT_FALSE(device_peak_flops("NVIDIA H100 80GB HBM3", "fp32"));
  EXPECT_TRUE(device_peak_flops("NVIDIA H100 80GB HBM3", "fp16"));
}

}  // namespace
}  // namespace trireme
