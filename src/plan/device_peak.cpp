// Maps device names to machine files.
#include "plan/device_peak.h"

#include <array>
#include <string_view>
#include <utility>

#include "plan/machine.h"

namespace trireme {
namespace {

// Substrings of driver-reported names, and the machine with that device. Variants with a different
// peak, such as the PCIe H100, are deliberately excluded.
constexpr std::array<std::pair<std::string_view, const char*>, 7> known = {{
    {"H100 80GB HBM3", "h100"},
    {"H100 SXM", "h100"},
    {"H200", "h100"},
    {"GH200", "h100"},
    {"A100", "a100"},
    {"MI250X", "lumi-g"},
    {"MI300X", "mi300x"},
}};

}  // namespace

double peak_of_device(const std::string& device_name, Precision precision) {
  if (precision == Precision::fp64) return 0;
  for (const auto& [part, machine] : known) {
    if (device_name.find(part) == std::string::npos) continue;
    const std::optional<MachineSpeed> speed = find_machine(machine).speed;
    if (!speed) return 0;
    return (precision == Precision::fp32 ? speed->fp32 : speed->bf16).peak;
  }
  return 0;
}

}  // namespace trireme
