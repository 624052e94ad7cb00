// Peak flops of the device that a run computes on, for known machines.
#pragma once

#include <string>

namespace trireme {

// Returns the peak flops per second in that precision (run.precision), from the machine file that
// lists the device's name ("NVIDIA H100 80GB HBM3"); 0 if unknown.
double peak_of_device(const std::string& device_name, Precision precision);

}  // namespace trireme
