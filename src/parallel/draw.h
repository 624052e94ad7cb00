// Diagrams of a schedule: one row per rank, time from left to right.
#pragma once

#include <string>

#include "parallel/check.h"

namespace trireme {

struct DrawOptions {
  int columns = 200;  // maximum text width; wider diagrams lose their middle
  std::string unit;   // of the times, e.g. "ms"; empty: passes
  // Number of micro-batches omitted from the middle of the step that `whole` describes: later ones
  // are labeled with their actual numbers.
  int left_out = 0;
  const Schedule* whole = nullptr;  // null: the schedule being drawn
  const ScheduleReport* whole_report = nullptr;
};

struct ScheduleDrawing {
  std::string text;
  std::string svg;
};

// Draws the run described by `report`, with a sentence on its cost. Diagrams of long steps show
// only the beginning and the end. The schedule must not have loops.
ScheduleDrawing draw_schedule(const Schedule& schedule, const ScheduleReport& report,
                              const DrawOptions& options = {});

// Draws any schedule with passes of equal length: of a long step, only the beginning and the end
// are simulated.
ScheduleDrawing draw_even_schedule(const Schedule& schedule, const ScheduleReport& report);

}  // namespace trireme
