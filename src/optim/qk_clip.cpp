// The factors of QK-clip by parameter, layer and row.
#include "optim/qk_clip.h"

#include <algorithm>

#include "base/error.h"
#include "base/portable_math.h"

namespace trireme {

QkClip::QkClip(const OptimizerConfig& optimizer, const ModelConfig& model,
               const std::vector<double>& largest)
    : alpha_(optimizer.qk_clip_alpha), groups_(model.num_kv_heads) {
  const auto heads = static_cast<std::size_t>(model.num_heads / groups_);
  for (std::size_t first = 0; first < largest.size(); first += heads) {
    const double most =
        *std::max_element(largest.begin() + static_cast<std::ptrdiff_t>(first),
                          largest.begin() + static_cast<std::ptrdiff_t>(first + heads));
    largest_ = std::max(largest_, most);
    shrinks_.push_back(most > optimizer.qk_clip_threshold ? optimizer.qk_clip_threshold / most : 1);
    scales_ = scales_ || shrinks_.back() < 1;
  }
}

double QkClip::factor(const ParameterSpec& spec, std::int64_t layer, std::int64_t row) const {
  std::int64_t period = 0;
  for (const ParameterSpec::ClipRows& rows : spec.clip_rows) period += rows.rows;
  const std::int64_t group = layer * groups_ + row / period;
  if (layer < 0 || group >= std::ssize(shrinks_)) return 1;
  const double shrink = shrinks_[static_cast<std::size_t>(group)];
  std::int64_t left = row % period;
  for (const ParameterSpec::ClipRows& rows : spec.clip_rows) {
    left -= rows.rows;
    if (left >= 0) continue;
    switch (rows.clip) {
      case ParameterSpec::Clip::nothing:
        return 1;
      case ParameterSpec::Clip::query:
        return math::pow(shrink, alpha_);
      case ParameterSpec::Clip::key:
        return math::pow(shrink, 1 - alpha_);
      case ParameterSpec::Clip::query_and_key:
        return shrink;
    }
  }
  fail("internal error: row {} of '{}' belongs to no head", row, spec.name);
}

}  // namespace trireme
