// Groups parameters into units and units into buckets, and records who writes and reads them.
#include "parallel/states/state_layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace trireme {
namespace {

// A use of a parameter, and the pass that produces its gradient.
struct Use {
  bool tied = false, matrix = false, of_experts = false;
  std::vector<int> segments;
  std::set<int> late_in, early_in;  // segments

  auto key() const { return std::tie(tied, matrix, of_experts, segments, late_in, early_in); }
};

std::vector<Use> uses_of(const StageDefinition& definition, const StateOptions& options) {
  std::vector<Use> uses(definition.parameters.size());
  for (std::size_t p = 0; p < uses.size(); ++p) {
    uses[p].tied = definition.parameters[p].name == options.tied;
    uses[p].of_experts = definition.parameters[p].spec.of_experts;
    uses[p].matrix = options.matrices_apart && !definition.parameters[p].spec.matrix_rows.empty();
  }
  for (int s = 0; s < static_cast<int>(definition.segments.size()); ++s) {
    const SegmentInstance& instance = definition.segments[s];
    const SegmentTemplate& graphs = definition.templates[instance.segment];
    for (const int p : instance.parameters) uses[p].segments.push_back(s);
    if (!graphs.train) continue;
    for (const Node& node : graphs.train->backward) {
      const bool late = options.split_weight_grad && !graphs.forward_in_backward &&
                        node.phase == Phase::weight_grad;
      for (const ValueId id : node.outputs) {
        if (id == no_value || graphs.train->value(id).role != Role::gradient) continue;
        Use& use = uses[instance.parameters[graphs.train->value(id).index]];
        (late ? use.late_in : use.early_in).insert(s);
      }
    }
  }
  return uses;
}

}  // namespace

StateLayout::StateLayout(const StageDefinition& definition, const StateOptions& options)
    : options_(options) {
  TRIREME_CHECK(options.degree >= 1 && options.rank >= 0 && options.rank < options.degree);
  TRIREME_CHECK(options.expert_degree >= 1 && options.expert_rank >= 0 &&
                options.expert_rank < options.expert_degree);
  TRIREME_CHECK(options.zero > 0 || (options.degree == 1 && options.expert_degree == 1));
  TRIREME_CHECK(!options.exact || !options.narrow_gradients);
  const auto& parameters = definition.parameters;
  const std::vector<Use> uses = uses_of(definition, options);

  // Parameters of one unit are contiguous; units are in the order of their first parameters.
  std::map<decltype(uses[0].key()), int> units;
  std::vector<int> unit_of(parameters.size()), order(parameters.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    unit_of[p] = units.try_emplace(uses[p].key(), static_cast<int>(units.size())).first->second;
  }
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return unit_of[a] < unit_of[b]; });
  std::vector<ShardParameter> listed;
  listed.reserve(order.size());
  for (const int p : order) listed.push_back({parameters[p].spec.shape.count(), unit_of[p]});
  // The same buckets, split for either group of ranks.
  const auto plan_for = [&](int degree) {
    return ShardPlan(listed, {.degree = degree, .keep_units = true, .grain = options.grain});
  };
  const ShardPlan plan = plan_for(options.degree), of_experts = plan_for(options.expert_degree);

  bucket_of_.resize(parameters.size());
  offsets_.resize(parameters.size());
  counts_.resize(parameters.size());
  std::int64_t begin = 0;
  for (int b = 0; b < static_cast<int>(plan.buckets().size()); ++b) {
    const ParameterSpec& first =
        parameters[order[plan.buckets()[b].parameters.front().parameter]].spec;
    const ShardPlan& cut = first.of_experts ? of_experts : plan;
    const ShardBucket& bucket = cut.buckets()[b];
    ranges_.push_back({begin, bucket.elements, first.fixed_point});
    of_experts_.push_back(first.of_experts);
    state_begins_.push_back(state_elements_);
    state_elements_ += bucket.part;
    std::vector<FlatRange>& gaps = padding_.emplace_back();
    std::int64_t filled = 0;
    const auto fill_from = [&](std::int64_t next) {
      if (next > filled) gaps.push_back({filled, next - filled});
    };
    for (const ShardSlice& whole : bucket.parameters) {
      const int p = order[whole.parameter];
      bucket_of_[p] = b;
      offsets_[p] = begin + whole.offset;
      counts_[p] = whole.count();
      fill_from(whole.offset);
      filled = whole.offset + whole.count();
    }
    fill_from(bucket.elements);
    for (const ShardSlice& slice : cut.owned(b, rank(b))) {
      owned_.push_back({order[slice.parameter], slice.begin, slice.end, b, slice.offset});
    }
    begin += bucket.elements;
  }
  flat_elements_ = begin;

  writers_.resize(ranges_.size());
  for (int s = 0; s < static_cast<int>(definition.segments.size()); ++s) {
    std::set<int> all, early, late;
    for (const int p : definition.segments[s].parameters) {
      all.insert(bucket_of_[p]);
      if (uses[p].early_in.contains(s)) early.insert(bucket_of_[p]);
      if (uses[p].late_in.contains(s)) late.insert(bucket_of_[p]);
    }
    for (const int b : early) ++writers_[b];
    for (const int b : late) ++writers_[b];
    segment_buckets_.emplace_back(all.begin(), all.end());
    made_early_.emplace_back(early.begin(), early.end());
    made_late_.emplace_back(late.begin(), late.end());
  }
}

OwnedSlice StateLayout::slice_of(int parameter, int rank) const {
  const int bucket = bucket_of_[parameter];
  const std::int64_t part_begin = ranges_[bucket].begin + rank * part(bucket);
  const std::int64_t first = offsets_[parameter], last = first + counts_[parameter];
  const std::int64_t from = std::clamp(part_begin, first, last);
  const std::int64_t to = std::clamp(part_begin + part(bucket), first, last);
  return {parameter, from - first, to - first, bucket, from - part_begin};
}

void StateLayout::lay_out(StageDefinition& definition) const {
  TRIREME_CHECK(definition.parameters.size() == offsets_.size() &&
                definition.segments.size() == segment_buckets_.size());
  for (std::size_t p = 0; p < offsets_.size(); ++p) definition.parameters[p].offset = offsets_[p];
  definition.flat_elements = flat_elements_;
  definition.windows.clear();
  for (const std::vector<int>& buckets : segment_buckets_) {
    std::vector<FlatRange>& window = definition.windows.emplace_back();
    for (const int bucket : buckets) window.push_back(ranges_[bucket]);
  }
}

}  // namespace trireme
