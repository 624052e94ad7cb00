// For what multiplies by tiles: the emulated GPU with the register maps of all matrix units.
#pragma once

#include <dlfcn.h>

#include <cstring>

#include "backend/gpu/both_devices.h"

namespace trireme {

// Instantiated for waves of both widths, and for gfx11's map, by TRIREME_ON_ALL_MAPS(suite).
class OnAllMaps : public OnBothWaves {
 protected:
  // The order in which the threads of a block run: see emulated/block.h. That of a real GPU is its
  // own.
  void set_thread_order(std::uint64_t seed) {
    Dl_info info;  // of the plug-in, where the device's table of virtual functions lies
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
