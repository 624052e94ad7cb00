// Packs parameters into buckets and splits the buckets into parts.
#include "parallel/states/shards.h"

#include <algorithm>

#include "base/divide.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr std::int64_t max_elements = std::int64_t{1} << 56;

}  // namespace

ShardPlan::ShardPlan(std::span<const ShardParameter> parameters, const ShardOptions& options)
    : options_(options), bucket_of_(parameters.size()) {
  TRIREME_CHECK(options.degree >= 1 && options.grain >= 1 && options.bucket_elements >= 1);
  std::int64_t used = 0;  // of the last bucket
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ShardParameter& p = parameters[i];
    TRIREME_CHECK(p.elements >= 0 && p.elements < max_elements);
    TRIREME_CHECK(i == 0 || p.unit >= parameters[i - 1].unit);
    const bool full = used > 0 && used + p.elements > options.bucket_elements;
    const bool next_unit = options.keep_units && i > 0 && p.unit != parameters[i - 1].unit;
    if (i == 0 || full || next_unit) {
      buckets_.push_back({.unit = p.unit});
      first_parameter_.push_back(static_cast<int>(i));
      used = 0;
    }
    buckets_.back().parameters.push_back({static_cast<int>(i), 0, p.elements, used});
    bucket_of_[i] = static_cast<int>(buckets_.size()) - 1;
    used = round_up(used + p.elements, options.grain);
    buckets_.back().elements = used;
  }
  for (ShardBucket& bucket : buckets_) {
    bucket.part = round_up(ceil_div(bucket.elements, options.degree), options.grain);
    bucket.elements = bucket.part * options.degree;
    total_ += bucket.elements;
    TRIREME_CHECK(total_ < max_elements);
  }
}

std::int64_t ShardPlan::offset_of(int parameter) const {
  const int bucket = bucket_of_[parameter];
  return buckets_[bucket].parameters[parameter - first_parameter_[bucket]].offset;
}

std::vector<ShardSlice> ShardPlan::owned(int bucket, int rank) const {
  TRIREME_CHECK(rank >= 0 && rank < options_.degree);
  const ShardBucket& b = buckets_[bucket];
  const std::int64_t begin = rank * b.part;
  const std::int64_t end = begin + b.part;
  std::vector<ShardSlice> slices;
  for (const ShardSlice& whole : b.parameters) {
    const std::int64_t from = std::max(begin, whole.offset);
    const std::int64_t to = std::min(end, whole.offset + whole.count());
    if (from < to) {
      slices.push_back({whole.parameter, from - whole.offset, to - whole.offset, from - begin});
    }
  }
  return slices;
}

}  // namespace trireme
