// Diagrams of a run's layout: memory contents and pipeline schedule.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace trireme {

struct LayoutPictures {
  std::string mesh;              // in words
  std::string memory, schedule;  // SVG; no schedule without a pipeline
  std::string note;              // why there is no diagram
};

// Plans the layout, which takes an instant for small models and seconds for large ones. `limit`:
// bytes of a device, 0 if unknown. Never throws on an invalid configuration.
LayoutPictures draw_layout(const Config& config, int ranks, std::int64_t limit);

}  // namespace trireme
