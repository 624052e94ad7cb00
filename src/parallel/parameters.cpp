// Gathering parameters, ahead of their use where it can be known.
#include "parallel/parameters.h"

#include <algorithm>

namespace trireme {

Parameters::Parameters(Stage& stage, const StateLayout& layout)
    : stage_(stage), layout_(layout), dtype_(stage.definition().compute) {
  memory_.add("sharded parameters",
              layout.parameters_in_windows() ? layout.state_elements() * size_of(dtype_) : 0);
}

void Parameters::allocate(const Groups& groups) {
  groups_ = &groups;
  parts_ = MemoryBlock(stage_.device(), memory_.total(), memory_.regions.front().name);
}

std::byte* Parameters::part(int bucket) const {
  if (layout_.parameters_in_windows())
    return parts_.data() + layout_.state_begin(bucket) * size_of(dtype_);
  return stage_.flat_parameters() + layout_.part_begin(bucket) * size_of(dtype_);
}

Communicator& Parameters::gather(int bucket) const {
  return groups_->gather_of(layout_.of_experts(bucket));
}

void Parameters::publish(int bucket) {
  if (layout_.parameters_in_windows() || gather(bucket).size() == 1) return;
  std::byte* whole = stage_.flat_parameters() + layout_.range(bucket).begin * size_of(dtype_);
  published_.push_back(gather(bucket).all_gather(part(bucket), whole, layout_.part(bucket), dtype_,
                                                 {"gather parameters", bucket}));
}

void Parameters::finish() {
  for (Work& work : published_) work.wait();
  published_.clear();
  for (Window& window : windows_) {
    for (Work& work : window.works) work.wait();
    window = {};
  }
  if (!layout_.parameters_in_windows()) return;
  for (int s = 0; s < std::min(2, static_cast<int>(stage_.definition().segments.size())); ++s)
    stage_.poison_parameters(s);
}

void Parameters::fetch(int segment) {
  Window& window = windows_[segment % 2];
  if (window.segment == segment) return;
  for (Work& work : window.works) work.wait();
  window.works.clear();
  window.segment = segment;
  stage_.poison_parameters(segment);
  std::byte* to = stage_.parameter_window(segment);
  for (const int bucket : layout_.buckets_of(segment)) {
    window.works.push_back(gather(bucket).all_gather(part(bucket), to, layout_.part(bucket), dtype_,
                                                     {"gather parameters", bucket}));
    to += layout_.range(bucket).elements * size_of(dtype_);
  }
}

std::array<int, 2> Parameters::wanted(Pass pass, int segment) const {
  const int next = runs_along(pass) ? segment + 1 : segment - 1;
  const auto if_read = [&](int s) {
    const bool there = s >= 0 && s < static_cast<int>(stage_.definition().segments.size());
    return there && stage_.reads_parameters(pass, s) ? s : -1;
  };
  return {if_read(segment), if_read(next)};
}

void Parameters::before(Pass pass, int segment) {
  if (!layout_.parameters_in_windows()) return;
  // Every member of the group runs the same passes in the same order, so that the gathers match.
  const auto [now, soon] = wanted(pass, segment);
  if (now >= 0) {
    fetch(now);
    for (Work& work : windows_[now % 2].works) work.wait();
    windows_[now % 2].works.clear();
  }
  if (soon >= 0) fetch(soon);
}

}  // namespace trireme
