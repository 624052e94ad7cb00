// The table of device peaks (vendors' data sheets, dense bf16 without sparsity).
#include "train/device_peak.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

namespace trireme {
namespace {

// A device is known if its name holds the word `model`, the word `variant` unless "", and none of
// the words that mark another product.
struct Peak {
  std::string_view model;
  std::string_view variant;
  double tflops;
};

constexpr std::array<Peak, 14> kPeaks{{
    {"A100", "", 312},
    {"H100", "HBM3", 989},  // the SXM board: its driver name tells the memory alone
    {"H100", "SXM", 989},
    {"H100", "SXM5", 989},
    {"H100", "NVL", 835},
    {"H100", "PCIE", 756},
    {"H200", "", 989},
    {"B200", "", 2250},
    {"GB200", "", 2500},
    {"MI250X", "", 191.5},
    {"MI300X", "", 1300},
    {"MI325X", "", 1300},
    {"MI350X", "", 2300},
    {"MI355X", "", 2500},
}};

// Slices of a device, and boards of the same name with other clocks or units.
constexpr std::array<std::string_view, 3> kOtherProducts{"MIG", "64GB", "VF"};

std::vector<std::string> words(std::string_view name) {
  std::vector<std::string> result{""};
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '.') {
      result.back() += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    } else if (!result.back().empty()) {
      result.emplace_back();
    }
  }
  return result;
}

}  // namespace

std::optional<double> device_peak_flops(std::string_view device_name, std::string_view precision) {
  if (precision != "bf16" && precision != "fp16") return std::nullopt;
  const std::vector<std::string> name = words(device_name);
  const auto has = [&](std::string_view word) {
    return std::find(name.begin(), name.end(), word) != name.end();
  };
  if (std::any_of(kOtherProducts.begin(), kOtherProducts.end(), has)) return std::nullopt;
  if (has("H200") && has("NVL")) return std::nullopt;
  // The NVL and PCIe boards of the H100 may name their memory as well.
  const bool board = has("NVL") || has("PCIE");
  for (const Peak& peak : kPeaks) {
    if (!has(peak.model) || (!peak.variant.empty() && !has(peak.variant))) continue;
    if (peak.variant == "HBM3" && board) continue;
    return peak.tflops * 1e12;
  }
  return std::nullopt;
}

}  // namespace trireme
