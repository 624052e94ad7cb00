// Runs the same kernel on the CPU and on an emulated GPU, with equal inputs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/cpu/device.h"
#include "backend/gpu/device_memory.h"
#include "backend/plugin_loader.h"

namespace trireme {

// Returns the plug-in that replaces "emulated" if TRIREME_GPU_UNDER_TEST names one.
inline std::string plugin_under_test(const std::string& name) {
  const char* const other = std::getenv("TRIREME_GPU_UNDER_TEST");
  return other && name == "emulated" ? other : name;
}

inline bool is_real(const std::string& plugin) {
  return plugin == "cuda" || plugin == "hip";
}

// Scratch sizes depend on the kind of device. That of the interpreter of PTX is NVIDIA's.
inline Device& device_under_test(const std::string& name) {
  const std::string plugin = plugin_under_test(name);
  return plugin_device(plugin, {.device = plugin == "cuda" || plugin == "ptx" ? DeviceKind::cuda
                                          : plugin == "hip"                   ? DeviceKind::hip
                                                            : DeviceKind::emulated});
}

// Instantiated for both wave widths by TRIREME_ON_BOTH_WAVES(suite).
class OnBothWaves : public ::testing::TestWithParam<const char*> {
 protected:
  Device& gpu_ = device_under_test(GetParam());
  Device& cpu_ = cpu::device();

  // Calls body(device) for the CPU and for the GPU, and returns both results.
  template <class Body>
  auto on_both(const Body& body) {
    return std::pair{body(cpu_), body(gpu_)};
  }
};

#define TRIREME_ON_BOTH_WAVES(suite)                                                  \
  INSTANTIATE_TEST_SUITE_P(Waves, suite, ::testing::Values("emulated", "emulated64"), \
                           [](const auto& instance) { return std::string(instance.param); })

// Calls body(T{}) for every storage type that GPUs support.
template <class Body>
void for_storage_types(const Body& body) {
  body(float{}), body(bf16{}), body(f16{});
}

// Returns normally distributed numbers in the storage type T.
template <class T>
std::vector<T> normal_values(std::size_t count, std::uint64_t seed, float deviation = 1) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> distribution(0, deviation);
  std::vector<T> values;
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) values.push_back(T(distribution(generator)));
  return values;
}

// Largest difference allowed for numbers of magnitude 1 that were rounded to T once or twice.
template <class T>
double tolerance_of() {
  if constexpr (std::is_same_v<T, bf16>) return 0x1p-7;
  if constexpr (std::is_same_v<T, f16>) return 0x1p-9;
  return 2e-5;
}

// Converts values of a storage type to floats.
template <class T>
std::vector<float> as_floats(const std::vector<T>& values) {
  std::vector<float> floats;
  floats.reserve(values.size());
  for (const T& value : values) floats.push_back(static_cast<float>(value));
  return floats;
}

// Expects all elements to be equal.
template <class T>
void expect_equal(const std::pair<std::vector<T>, std::vector<T>>& both) {
  ASSERT_EQ(both.first.size(), both.second.size());
  for (std::size_t i = 0; i < both.first.size(); ++i) {
    if constexpr (std::is_integral_v<T>) {
      ASSERT_EQ(both.first[i], both.second[i]) << "element " << i;
    } else {
      ASSERT_EQ(static_cast<float>(both.first[i]), static_cast<float>(both.second[i]))
          << "element " << i;
    }
  }
}

// Expects all elements within `tolerance`, relative to the other's or to the tensor's largest.
template <class T>
void expect_close(const std::pair<std::vector<T>, std::vector<T>>& both, double tolerance) {
  const auto& [expected, got] = both;
  ASSERT_EQ(expected.size(), got.size());
  double largest = 0;
  for (const T& x : expected)
    largest = std::max(largest, std::fabs(static_cast<double>(static_cast<float>(x))));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<float>(expected[i]), static_cast<float>(got[i]),
                tolerance * std::max(largest, 1e-6))
        << "element " << i;
  }
}

}  // namespace trireme
