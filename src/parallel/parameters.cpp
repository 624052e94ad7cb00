// Gathers parameters, prefetching them if their use is known in advance.
#include "parallel/parameters.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

Parameters::Parameters(Stage& stage, const StateLayout& layout, const OffloadOptions& offload)
    : stage_(stage), layout_(layout), dtype_(stage.definition().compute) {
  const bool parted = layout.parameters_in_windows(), elsewhere = offload.elsewhere();
  TRIREME_CHECK(parted || !elsewhere);
  memory_.add("sharded parameters",
              parted && !elsewhere ? layout.state_elements() * size_of(dtype_) : 0);
  if (!elsewhere) return;
  store_ = std::make_unique<ParameterStore>(stage, layout, offload);
  memory_.add("parameters in flight", store_->memory_bytes());
}

void Parameters::allocate(const Groups& groups) {
  groups_ = &groups;
  const MemoryRegion& parts = memory_.regions.front();
  parts_ = MemoryBlock(stage_.device(), parts.bytes, parts.name);
  if (store_) store_->allocate(memory_.regions.back());
}

std::byte* Parameters::part(int bucket) {
  if (store_) {
    for (Window& window : windows_) settle(window);  // which is gathered from what this overwrites
    return store_->begin(bucket);
  }
  if (layout_.parameters_in_windows())
    return parts_.data() + layout_.state_begin(bucket) * size_of(dtype_);
  return stage_.flat_parameters() + layout_.part_begin(bucket) * size_of(dtype_);
}

Communicator& Parameters::gather(int bucket) const {
  return groups_->gather_of(layout_.of_experts(bucket));
}

void Parameters::publish(int bucket) {
  if (store_) {
    part(bucket);  // even if this rank owns nothing of it
    return store_->keep(bucket);
  }
  if (layout_.parameters_in_windows() || gather(bucket).size() == 1) return;
  std::byte* whole = stage_.flat_parameters() + layout_.range(bucket).begin * size_of(dtype_);
  published_.push_back(gather(bucket).all_gather(part(bucket), whole, layout_.part(bucket), dtype_,
                                                 {"gather parameters", bucket}));
}

void Parameters::finish() {
  for (Work& work : published_) work.wait();
  published_.clear();
  if (store_) store_->finish();
  for (Window& window : windows_) {
    settle(window);
    window = {};
  }
  if (!layout_.parameters_in_windows()) return;
  for (int s = 0; s < std::min(2, static_cast<int>(stage_.definition().segments.size())); ++s)
    stage_.poison_parameters(s);
}

void Parameters::settle(Window& window) {
  for (Work& work : window.works) work.wait();
  window.works.clear();
}

void Parameters::bring(int segment) {
  if (!store_ || segment < 0) return;
  Window& window = windows_[segment % 2];
  if (window.segment == segment) return;
  settle(window);  // which is gathered from what this overwrites
  store_->bring(segment);
}

void Parameters::fetch(int segment) {
  Window& window = windows_[segment % 2];
  if (window.segment == segment) return;
  settle(window);
  window.segment = segment;
  stage_.poison_parameters(segment);
  std::byte* to = stage_.parameter_window(segment);
  for (const int bucket : layout_.buckets_of(segment)) {
    const std::byte* from = store_ ? store_->part(segment, bucket) : part(bucket);
    if (gather(bucket).size() == 1) {  // which knows no queues
      stage_.device().queue().copy(to, from, layout_.part(bucket) * size_of(dtype_));
    } else {
      window.works.push_back(gather(bucket).all_gather(from, to, layout_.part(bucket), dtype_,
                                                       {"gather parameters", bucket}));
    }
    to += layout_.range(bucket).elements * size_of(dtype_);
  }
}

std::array<int, 3> Parameters::wanted(Pass pass, int segment) const {
  const int step = runs_along(pass) ? 1 : -1;
  const auto if_read = [&](int s) {
    const bool there = s >= 0 && s < static_cast<int>(stage_.definition().segments.size());
    return there && stage_.reads_parameters(pass, s) ? s : -1;
  };
  return {if_read(segment), if_read(segment + step), if_read(segment + 2 * step)};
}

void Parameters::before(Pass pass, int segment) {
  if (!layout_.parameters_in_windows()) return;
  // All ranks of the group run the same passes in the same order, so that the gathers match.
  const auto [now, soon, later] = wanted(pass, segment);
  bring(now);
  bring(soon);
  if (now >= 0) {
    fetch(now);
    settle(windows_[now % 2]);
  }
  if (soon >= 0) fetch(soon);
  bring(later);
}

void Parameters::set_trace(Trace* trace) {
  if (store_) store_->set_trace(trace);
}

}  // namespace trireme
