// Exported functions of a plug-in.
#include "backend/plugin.h"

#include "backend/gpu/device.h"
#include "backend/gpu/machine.h"
#include "backend/gpu/report.h"
#include "backend/gpu/runtime.h"

namespace runtime = trireme::gpu::runtime;

#define TRIREME_EXPORT extern "C" __attribute__((visibility("default")))

TRIREME_EXPORT int trireme_device_version() {
  return trireme::plugin_version;
}

TRIREME_EXPORT std::vector<int> trireme_device_start() {
  runtime::prepare();
  runtime::start();
  std::vector<int> nodes;
  const int count = runtime::device_count();
  for (int i = 0; i < count; ++i) nodes.push_back(runtime::numa_node(i));
  return nodes;
}

TRIREME_EXPORT trireme::Device* trireme_device_open(const trireme::Target& target, int index) {
  runtime::prepare();
  return trireme::gpu::make_device(target, index);
}

TRIREME_EXPORT trireme::MachineReport trireme_device_report() {
  runtime::prepare();
  return trireme::gpu::report();
}
