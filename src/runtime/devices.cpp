// From names to devices.
#include "runtime/devices.h"

#include <cstdlib>

#include "backend/cpu/device.h"
#include "backend/cpu/isa.h"
#include "backend/plugin_loader.h"
#include "base/error.h"

namespace trireme {
namespace {

std::string plugin_of(const std::string& name) {
  if (name != "emulated") return name;
  const char* const wave = std::getenv("TRIREME_WAVE");
  if (!wave || std::string(wave) == "32") return name;
  if (std::string(wave) != "64")
    fail_input("TRIREME_WAVE is '{}': the emulated GPU has waves of 32 or 64 lanes", wave);
  return "emulated64";
}

}  // namespace

Device& device_of(const std::string& name) {
  if (name == "cpu") return cpu::device();
  return plugin_device(plugin_of(name), target_of(name));
}

Target target_of(const std::string& name) {
  if (name == "cpu") return cpu::this_machine();
  Target target;
  for (const DeviceKind kind : {DeviceKind::cuda, DeviceKind::hip, DeviceKind::emulated}) {
    if (name == name_of(kind)) target.device = kind;
  }
  TRIREME_CHECK(target.device != DeviceKind::cpu);  // configurations know no other names
  return target;
}

}  // namespace trireme
