// Pictures of a schedule: ranks down, time across.
#pragma once

#include <string>

#include "parallel/check.h"

namespace trireme {

struct DrawOptions {
  int columns = 200;  // of the text, at most; what is longer loses its middle
  std::string unit;   // of the times, e.g. "ms"; empty: passes
  // Micro-batches that the schedule leaves out in the middle of the step that `whole` reports on:
  // those that come later get their own numbers.
  int left_out = 0;
  const Schedule* whole = nullptr;  // null: the one that is drawn
  const ScheduleReport* whole_report = nullptr;
};

struct ScheduleDrawing {
  std::string text;
  std::string svg;
};

// Draws the run that `report` describes, with a sentence on its costs. Pictures of long steps show
// how they begin and how they end. The schedule has no loops.
ScheduleDrawing draw_schedule(const Schedule& schedule, const ScheduleReport& report,
                              const DrawOptions& options = {});

// The same for any schedule whose passes take equally long: of a long step, only the beginning and
// the end are simulated.
ScheduleDrawing draw_even_schedule(const Schedule& schedule, const ScheduleReport& report);

}  // namespace trireme
