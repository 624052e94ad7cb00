// SVG diagrams of a plan's memory and time.
#pragma once

#include <span>
#include <string>

#include "plan/layout_search.h"
#include "plan/time_plan.h"

namespace trireme {

// Draws memory by region, for a rank of each pipeline position; `limit` is drawn as a line unless
// it is 0.
std::string draw_memory(const LayoutPlan& plan, std::int64_t limit);
// Draws the step by kind of work and wait, for a rank of each pipeline position. The time must not
// be refused.
std::string draw_time(const TimePlan& time);
// Draws the steps of several layouts, averaged over pipeline positions.
std::string draw_layouts(std::span<const FoundLayout> layouts, int ranks);

}  // namespace trireme
