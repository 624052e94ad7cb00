// The functions that a plug-in exports.
#include "backend/plugin.h"

#include "backend/gpu/device.h"
#include "backend/gpu/report.h"

#define TRIREME_EXPORT extern "C" __attribute__((visibility("default")))

TRIREME_EXPORT int trireme_device_version() {
  return trireme::plugin_version;
}

TRIREME_EXPORT trireme::Device* trireme_device_open(const trireme::Target& target) {
  return trireme::gpu::make_device(target);
}

TRIREME_EXPORT trireme::MachineReport trireme_device_report() {
  return trireme::gpu::report();
}
