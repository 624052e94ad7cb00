// Pictures of a schedule: ranks down, time across.
#pragma once

#include <string>

#include "parallel/check.h"

namespace trireme {

struct DrawOptions {
  int columns = 200;  // of the text, at most; longer schedules are drawn coarser
  std::string unit;   // of the times, e.g. "ms"; empty: passes
};

struct ScheduleDrawing {
  std::string text;
  std::string svg;
};

// Draws the run that `report` describes, with its summary as the title.
ScheduleDrawing draw_schedule(const Schedule& schedule, const ScheduleReport& report,
                              const DrawOptions& options = {});

}  // namespace trireme
