// Activation windows: the segments that have one, its contents, and the part that slots keep.
#include "base/divide.h"
#include "base/error.h"
#include "runtime/stage.h"

namespace trireme {
namespace {

// Alignment of transfers from and to files.
constexpr std::int64_t page = 4096;

}  // namespace

// Window layout: a segment's input, then what it saves, or what ranks make of their parts.
void Stage::plan_activation_windows() {
  if (options_.windowed_layers == 0 || !options_.training) return;
  const auto& segments = definition_.segments;
  const auto is_layer = [&](const SegmentInstance& segment) {
    const auto graphs = static_cast<std::size_t>(segment.segment);
    return segment.layer >= 0 && !definition_.templates[graphs].forward_in_backward;
  };
  const auto first = std::find_if(segments.begin(), segments.end(), is_layer);
  const auto last = std::find_if_not(first, segments.end(), is_layer);
  plan_.first_windowed = static_cast<int>(first - segments.begin());
  plan_.windowed = static_cast<int>(std::min<std::int64_t>(last - first, options_.windowed_layers));
  if (const int parts = options_.input_parts; parts > 0)
    plan_.input_part_bytes = align_up((plan_.boundary_bytes + parts - 1) / parts);
  for (int s = plan_.first_windowed; s < plan_.first_windowed + plan_.windowed; ++s)
    plan_.window_bytes = std::max(plan_.window_bytes, bytes_in_window(s));
}

std::int64_t Stage::bytes_in_window(int segment) const {
  if (options_.input_parts > 0)
    return round_up(options_.input_parts * plan_.input_part_bytes, page);
  const int of_template = definition_.segments[static_cast<std::size_t>(segment)].segment;
  const SegmentPlan& plan = plan_.train_plans[static_cast<std::size_t>(of_template)];
  return round_up(plan_.boundary_bytes + plan.saved_bytes, page);
}

std::int64_t Stage::largest_window() const {
  return windowed() == 0 ? 0 : reserved_[StageRegion::activation_windows] / activation_windows();
}

std::byte* Stage::activation_window(int segment) const {
  TRIREME_CHECK(has_window(segment));
  return blocks_[StageRegion::activation_windows].data() + window_of(segment) * plan_.window_bytes;
}

void Stage::poison_window(int segment) const {
  poison(activation_window(segment), plan_.window_bytes);
}

bool Stage::changes_window(int segment) const {
  if (!options_.split_weight_grad || !saves_in_window(static_cast<std::size_t>(segment)))
    return false;
  const int of_template = definition_.segments[static_cast<std::size_t>(segment)].segment;
  const SegmentPlan& plan = plan_.train_plans[static_cast<std::size_t>(of_template)];
  for (const Node& node : plan.backward) {
    for (const ValueId id : node.outputs)
      if (id != no_value && plan.placements[static_cast<std::size_t>(id)].arena == Arena::saved)
        return true;
  }
  return false;
}

std::byte* Stage::input_part(int segment, Slot slot) const {
  TRIREME_CHECK(has_window(segment) && options_.input_parts > 0);
  const auto whole = static_cast<std::int64_t>(definition_.segments.size()) + 1 - windowed();
  return slots().at(StageRegion::block_inputs, slot.index) + whole * plan_.boundary_bytes +
         (segment - first_windowed()) * plan_.input_part_bytes;
}

}  // namespace trireme
