// Gathering parameters, ahead of their use where it can be known.
#include "parallel/parameters.h"

namespace trireme {

Parameters::Parameters(Stage& stage, const StateLayout& layout)
    : stage_(stage), layout_(layout), dtype_(stage.definition().compute) {
  memory_.add("sharded parameters",
              layout.parameters_in_windows() ? layout.state_elements() * size_of(dtype_) : 0);
}

void Parameters::allocate(Communicator& gather) {
  gather_ = &gather;
  parts_ = MemoryBlock(memory_.total());
}

std::byte* Parameters::part(int bucket) const {
  if (layout_.parameters_in_windows())
    return parts_.data() + layout_.state_begin(bucket) * size_of(dtype_);
  return stage_.flat_parameters() + layout_.part_begin(bucket) * size_of(dtype_);
}

void Parameters::publish(int bucket) {
  if (layout_.parameters_in_windows() || gather_->size() == 1) return;
  std::byte* whole = stage_.flat_parameters() + layout_.range(bucket).begin * size_of(dtype_);
  published_.push_back(gather_->all_gather(part(bucket), whole, layout_.part(bucket), dtype_,
                                           {"gather parameters", bucket}));
}

void Parameters::finish() {
  for (Work& work : published_) work.wait();
  published_.clear();
  for (Window& window : windows_) {
    for (Work& work : window.works) work.wait();
    window = {};
  }
}

void Parameters::fetch(int segment) {
  Window& window = windows_[segment % 2];
  if (window.segment == segment) return;
  for (Work& work : window.works) work.wait();
  window.works.clear();
  window.segment = segment;
  std::byte* to = stage_.parameter_window(segment);
  for (const int bucket : layout_.buckets_of(segment)) {
    window.works.push_back(gather_->all_gather(part(bucket), to, layout_.part(bucket), dtype_,
                                               {"gather parameters", bucket}));
    to += layout_.range(bucket).elements * size_of(dtype_);
  }
}

void Parameters::before(Pass pass, int segment) {
  if (!layout_.parameters_in_windows()) return;
  // Every member of the group runs the same passes in the same order, so that the gathers match.
  const auto needed = [&](int s) {
    return s >= 0 && s < static_cast<int>(stage_.definition().segments.size()) &&
           stage_.reads_parameters(pass, s);
  };
  if (needed(segment)) {
    fetch(segment);
    for (Work& work : windows_[segment % 2].works) work.wait();
    windows_[segment % 2].works.clear();
  }
  const int next = pass == Pass::forward || pass == Pass::evaluate ? segment + 1 : segment - 1;
  if (needed(next)) fetch(next);
}

double Parameters::traffic(std::int64_t micro_batches) const {
  const int degree = layout_.options().degree;
  // Of a gathered bucket every rank sends its part to each of the others.
  const double share = static_cast<double>(degree - 1) / degree * size_of(dtype_);
  if (!layout_.parameters_in_windows())
    return share * static_cast<double>(stage_.definition().flat_elements);
  double elements = 0;
  for (int s = 0; s < static_cast<int>(stage_.definition().segments.size()); ++s) {
    int gathers = 0;
    for (const Pass pass : {Pass::forward, Pass::backward, Pass::weight_grad})
      gathers += stage_.reads_parameters(pass, s);
    for (const int bucket : layout_.buckets_of(s))
      elements += static_cast<double>(gathers * layout_.range(bucket).elements);
  }
  return share * elements * static_cast<double>(micro_batches);
}

}  // namespace trireme
