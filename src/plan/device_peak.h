// The peak of the device that a run computes on, where it is one of the machines that are known.
#pragma once

#include <string>

namespace trireme {

// Flops per second of products in that precision (run.precision), from the machine file of the
// device that calls itself so ("NVIDIA H100 80GB HBM3"); 0 where none is known.
double peak_of_device(const std::string& device_name, Precision precision);

}  // namespace trireme
