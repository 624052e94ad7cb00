// The diagrams of `trireme plan` for an existing run.
#include "view/layout_pictures.h"
#include "config/run_rules.h"

#include <fmt/format.h>

#include "base/error.h"
#include "parallel/draw.h"
#include "plan/pictures.h"
#include "runtime/devices.h"

namespace trireme {

LayoutPictures draw_layout(const Config& config, int ranks, std::int64_t limit) {
  LayoutPictures pictures;
  try {
    check_run(config, ranks);
    const LayoutPlan plan = plan_layout(config, ranks, target_of(config.run.device));
    pictures.mesh = plan.mesh.text();
    if (!config.run.memory.empty()) limit = parse_byte_size(config.run.memory, "run.memory");
    pictures.memory = draw_memory(plan, limit);
    if (plan.mesh.degrees().pp > 1)
      pictures.schedule = draw_even_schedule(plan.schedule, plan.even).svg;
  } catch (const std::exception& error) {
    pictures.note = fmt::format("the layout cannot be drawn: {}", error.what());
  }
  return pictures;
}

}  // namespace trireme
