// A plug-in's report on the GPUs of a machine, for `trireme doctor`;
// training does not need it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct GpuReport {
  std::string name;                   // "NVIDIA H100 80GB HBM3"
  std::string architecture;           // "sm_90", "gfx90a:sramecc+:xnack-"
  std::string bus;                    // "0000:1b:00.0"; empty if unknown
  int numa_node = -1;                 // negative: unknown
  std::int64_t memory = 0, free = 0;  // bytes
  std::string slowed_by;              // "power cap, heat"; empty: nothing, or not known
  bool without_error_correction = false;
};

// Copies from one GPU's memory to another's, as measured.
struct LinkReport {
  int from = 0, to = 0;
  bool direct = false;  // not through host memory
  double gigabytes_per_second = 0;
};

struct LibraryReport {
  std::string what;       // "matrix products", "collectives"
  std::string version;    // "cuBLASLt 13.0.1"; empty: it cannot be loaded
  std::string instead;    // fallback in use without it
  std::string path;       // of the file
  std::string problem;    // why it cannot be loaded, where that is known
  bool is_fault = false;  // without it this machine is far slower than it could be
};

struct MachineReport {
  std::string driver;   // "driver 13.0, runtime 13.0"
  std::string problem;  // why no GPU can be used; empty if one can
  std::vector<GpuReport> gpus;
  std::vector<LinkReport> links;  // every pair, both ways
  std::vector<LibraryReport> libraries;
};

}  // namespace trireme
