// Pictures of a plan as SVG: what memory holds and where time goes.
#pragma once

#include <span>
#include <string>

#include "plan/layout_search.h"
#include "plan/time_plan.h"

namespace trireme {

// Memory of a rank of each pipeline position by region; `limit` is drawn as a line where it is not
// 0.
std::string draw_memory(const LayoutPlan& plan, std::int64_t limit);
// The step of a rank of each pipeline position by kind of work, and what it waits for. The time is
// not refused.
std::string draw_time(const TimePlan& time);
// The steps of several layouts, as the mean over their positions.
std::string draw_layouts(std::span<const FoundLayout> layouts, int ranks);

}  // namespace trireme
