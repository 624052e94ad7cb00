// Reads the throttle reasons of NVML, which comes with the driver and is never linked.
#include "backend/gpu/vendor/slowed.h"

#include <dlfcn.h>

#include "backend/gpu/which.h"

namespace trireme::gpu {
namespace {

// Bits and functions as in NVML's API reference, "Clocks event reasons". Idle GPUs and user-set
// clocks are not reported.
struct Reason {
  unsigned long long bit;
  const char* text;
};
constexpr Reason reasons[] = {{0x04, "its power limit"},
                              {0x08, "hardware protection"},
                              {0x20, "heat"},
                              {0x40, "overheating"},
                              {0x80, "the power brake of the power supply"}};

class Nvml {
 public:
  Nvml() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library_) return;
    const auto init = find<int (*)()>("nvmlInit_v2");
    handle_ = find<decltype(handle_)>("nvmlDeviceGetHandleByPciBusId_v2");
    reasons_ = find<decltype(reasons_)>("nvmlDeviceGetCurrentClocksThrottleReasons");
    usable_ = init && handle_ && reasons_ && init() == 0;
  }

  unsigned long long bits(const std::string& bus) const {
    void* device = nullptr;
    unsigned long long bits = 0;
    if (usable_ && handle_(bus.c_str(), &device) == 0 && reasons_(device, &bits) == 0) return bits;
    return 0;
  }

 private:
  template <class Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_ = nullptr;
  int (*handle_)(const char* bus, void** device) = nullptr;
  int (*reasons_)(void* device, unsigned long long* bits) = nullptr;
  bool usable_ = false;
};

}  // namespace

std::string slowed_by([[maybe_unused]] const std::string& bus) {
  std::string text;
#if !TRIREME_HIP
  static const Nvml nvml;
  const unsigned long long bits = nvml.bits(bus);
  for (const Reason& reason : reasons) {
    if (bits & reason.bit) text += (text.empty() ? "" : ", ") + std::string(reason.text);
  }
#endif
  return text;
}

}  // namespace trireme::gpu
