// Maps device names to devices.
#include "runtime/devices.h"

#include <algorithm>
#include <cstdlib>

#include "backend/cpu/device.h"
#include "backend/cpu/isa.h"
#include "backend/plugin_loader.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"

namespace trireme {
namespace {

std::string plugin_of(DeviceKind kind) {
  if (kind != DeviceKind::emulated) return name_of(kind);
  const char* const wave = std::getenv("TRIREME_WAVE");
  if (!wave || std::string(wave) == "32") return name_of(kind);
  if (std::string(wave) != "64")
    fail_input("TRIREME_WAVE is '{}': the emulated GPU has waves of 32 or 64 lanes", wave);
  return "emulated64";
}

}  // namespace

Device& device_of(DeviceKind kind) {
  if (kind == DeviceKind::cpu) return cpu::device();
  return plugin_device(plugin_of(kind), target_of(kind));
}

std::vector<int> start_device(DeviceKind kind) {
  if (kind == DeviceKind::cpu) return {};
  return start_plugin(plugin_of(kind), target_of(kind));
}

void choose_device(DeviceKind kind, int visible, const Place& place) {
  if (kind == DeviceKind::cpu || visible == 1) return;
  if (visible < place.local_size) {
    fail_input(
        "{} ranks run on {}, but each of them sees {}: start one rank per GPU, or make a "
        "single GPU visible to each rank",
        place.local_size, place.host, counted(visible, "GPU"));
  }
  choose_plugin_device(plugin_of(kind), place.local_rank);
}

void check_devices_differ(const Device& device, const Place& place, Communicator& world) {
  const std::string address = device.address();
  if (address.empty() || world.size() == 1) return;
  const auto own = static_cast<std::int64_t>(hash64(place.host + " " + address));
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  world.all_gather(&own, all.data(), 1, DType::i64, "GPUs of all ranks").wait();
  for (int second = 0; second < world.size(); ++second) {
    const auto first = std::find(all.begin(), all.end(), all[static_cast<std::size_t>(second)]);
    if (first - all.begin() < second) {
      fail_input(
          "ranks {} and {} use the same GPU, with {} ranks on their node: start one rank per GPU",
          first - all.begin(), second, place.local_size);
    }
  }
}

Target target_of(DeviceKind kind) {
  if (kind == DeviceKind::cpu) return cpu::this_machine();
  return {.device = kind};
}

}  // namespace trireme
