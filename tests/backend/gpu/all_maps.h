// Fixture for kernels with matrix tiles: the emulated GPU with register maps of all matrix units.
#pragma once

#include <dlfcn.h>

#include <cstring>

#include "backend/gpu/both_devices.h"

namespace trireme {

// Instantiated for both wave widths and for gfx11's map by TRIREME_ON_ALL_MAPS(suite).
class OnAllMaps : public OnBothWaves {
 protected:
  // Sets the order in which a block's threads run (see emulated/block.h). A real GPU has its own
  // order.
  void set_thread_order(std::uint64_t seed) {
    Dl_info info;  // of the plug-in that has the device's vtable
    ASSERT_NE(dladdr(*reinterpret_cast<void**>(&gpu_), &info), 0);
    void* const plugin = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(plugin, nullptr) << dlerror();
    const auto set =
        reinterpret_cast<void (*)(std::uint64_t)>(dlsym(plugin, "trireme_emulated_thread_order"));
    ASSERT_TRUE(set || gpu_.target().device != DeviceKind::emulated) << dlerror();
    if (set) set(seed);
    dlclose(plugin);
  }
};

#define TRIREME_ON_ALL_MAPS(suite)                                                       \
  INSTANTIATE_TEST_SUITE_P(Maps, suite,                                                  \
                           ::testing::Values("emulated", "emulated64", "emulated_wmma"), \
                           [](const auto& instance) { return std::string(instance.param); })

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace trireme
