// Known matrix-product peaks of devices, the denominator of MFU.
#pragma once

#include <optional>
#include <string_view>

namespace trireme {

// Dense peak in FLOP/s of a device, by the name that its driver reports ("NVIDIA H100 80GB HBM3",
// "AMD Instinct MI250X": one of its two dies), for precision "bf16" or "fp16". Nothing for other
// precisions and for devices that are not known for certain: MFU is then "n/a", never a guess.
std::optional<double> device_peak_flops(std::string_view device_name, std::string_view precision);

}  // namespace trireme
