// The layout of a run as pictures: what its memory holds, and its pipeline schedule.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace trireme {

struct LayoutPictures {
  std::string mesh;              // in words
  std::string memory, schedule;  // SVG; no schedule without a pipeline
  std::string note;              // why there is no picture
};

// Plans the layout, which takes moments for small models and seconds for large ones. `limit`: bytes
// of a device, 0 if they are not known. Never throws for what is wrong with a configuration.
LayoutPictures draw_layout(const Config& config, int ranks, std::int64_t limit);

}  // namespace trireme
