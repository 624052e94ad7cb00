// Intersection and tiling of rectangles and ranges of tensors.
#include "checkpoint/region.h"

#include <algorithm>
#include <array>
#include <compare>
#include <tuple>

#include "base/counted.h"

namespace trireme {
namespace {

Shape zeros_like(const Shape& shape) {
  Shape zeros = shape;
  for (int i = 0; i < zeros.rank(); ++i) zeros[i] = 0;
  return zeros;
}

// A tensor and two of its rectangles, with dimensions that both rectangles span fully folded into
// the preceding one, for fewer and longer rows to copy.
struct Folded {
  int rank = 0;
  std::array<std::int64_t, Shape::max_rank + 1> src_offset{}, src_shape{}, dst_offset{},
      dst_shape{};

  void push(const Region& src, const Region& dst, int i, std::int64_t inner) {
    src_offset[rank] = src.offset[i] * inner;
    src_shape[rank] = src.shape[i] * inner;
    dst_offset[rank] = dst.offset[i] * inner;
    dst_shape[rank] = dst.shape[i] * inner;
    ++rank;
  }
};

Folded fold(const Shape& tensor, const Region& src, const Region& dst) {
  Folded out;
  std::vector<std::pair<int, std::int64_t>> kept;  // dimension, product of those folded into it
  std::int64_t inner = 1;
  for (int i = tensor.rank() - 1; i >= 0; --i) {
    const bool spanned = src.shape[i] == tensor[i] && dst.shape[i] == tensor[i];
    if (spanned && i > 0) {
      inner *= tensor[i];
    } else {
      kept.emplace_back(i, inner);
      inner = 1;
    }
  }
  std::ranges::reverse(kept);
  for (const auto& [i, factor] : kept) out.push(src, dst, i, factor);
  if (out.rank == 0) {  // scalar
    out.src_shape[0] = out.dst_shape[0] = 1;
    out.rank = 1;
  }
  return out;
}

bool disjoint(const Region& a, const Region& b) {
  for (int i = 0; i < a.shape.rank(); ++i) {
    if (a.offset[i] + a.shape[i] <= b.offset[i] || b.offset[i] + b.shape[i] <= a.offset[i]) {
      return true;
    }
  }
  return false;
}

bool comes_before(const Region& a, const Region& b) {
  const auto compare = [](const Shape& x, const Shape& y) {
    return std::lexicographical_compare_three_way(x.begin(), x.end(), y.begin(), y.end());
  };
  if (const auto order = compare(a.offset, b.offset); std::is_neq(order)) return std::is_lt(order);
  if (const auto order = compare(a.shape, b.shape); std::is_neq(order)) return std::is_lt(order);
  return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
}

// The check of pairs is quadratic; real layouts have far fewer rectangles.
constexpr std::size_t max_rectangles = 4096;

// Checks that ranges of one rectangle, sorted by begin, cover it without gaps or
// overlaps.
std::string ranges_fault(const Region* first, const Region* last) {
  std::int64_t next = 0;
  for (const Region* region = first; region != last; ++region) {
    if (region->begin != next) {
      return fmt::format("elements {} of {} are {}", std::min(region->begin, next),
                         Region::rectangle(first->offset, first->shape).text(),
                         region->begin > next ? "missing" : "there twice");
    }
    next = region->end;
  }
  if (next != first->shape.count()) {
    return fmt::format("elements {} to {} of {} are missing", next, first->shape.count(),
                       Region::rectangle(first->offset, first->shape).text());
  }
  return "";
}

}  // namespace

Region Region::whole(const Shape& tensor) {
  return rectangle(zeros_like(tensor), tensor);
}

Region Region::rectangle(const Shape& offset, const Shape& shape) {
  return {offset, shape, 0, shape.count()};
}

Region Region::range(const Shape& tensor, std::int64_t begin, std::int64_t end) {
  return {zeros_like(tensor), tensor, begin, end};
}

std::string Region::text() const {
  std::string out = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    out += fmt::format("{}{}:{}", i ? ", " : "", offset[i], offset[i] + shape[i]);
  }
  out += "]";
  return is_full_rectangle() ? out : fmt::format("{}({}:{})", out, begin, end);
}

std::string region_fault(const Shape& tensor, const Region& region) {
  if (region.offset.rank() != tensor.rank() || region.shape.rank() != tensor.rank()) {
    return fmt::format("has {} where the tensor {} has {}",
                       counted(region.shape.rank(), "dimension"), tensor.text(), tensor.rank());
  }
  for (int i = 0; i < tensor.rank(); ++i) {
    if (region.offset[i] < 0 || region.shape[i] < 0 || region.offset[i] > tensor[i] ||
        region.shape[i] > tensor[i] - region.offset[i]) {
      return fmt::format("leaves the tensor {}", tensor.text());
    }
  }
  if (region.begin < 0 || region.begin > region.end || region.end > region.shape.count()) {
    return fmt::format("has a range outside its {}", counted(region.shape.count(), "element"));
  }
  return "";
}

std::vector<Run> overlap(const Shape& tensor, const Region& src, const Region& dst) {
  const Folded f = fold(tensor, src, dst);
  std::array<std::int64_t, Shape::max_rank + 1> low{}, size{}, at{};
  for (int i = 0; i < f.rank; ++i) {
    low[i] = std::max(f.src_offset[i], f.dst_offset[i]);
    size[i] = std::min(f.src_offset[i] + f.src_shape[i], f.dst_offset[i] + f.dst_shape[i]) - low[i];
    if (size[i] <= 0) return {};
  }
  std::vector<Run> runs;
  for (;;) {
    // Position of the current row in each flattened rectangle.
    std::int64_t s = 0, d = 0;
    for (int i = 0; i < f.rank; ++i) {
      s = s * f.src_shape[i] + low[i] + at[i] - f.src_offset[i];
      d = d * f.dst_shape[i] + low[i] + at[i] - f.dst_offset[i];
    }
    const std::int64_t first = std::max({std::int64_t{0}, src.begin - s, dst.begin - d});
    const std::int64_t last = std::min({size[f.rank - 1], src.end - s, dst.end - d});
    if (first < last) runs.push_back({s + first - src.begin, d + first - dst.begin, last - first});
    int i = f.rank - 2;
    while (i >= 0 && ++at[i] == size[i]) at[i--] = 0;
    if (i < 0) return runs;
  }
}

std::string tiling_fault(const Shape& tensor, const std::vector<Region>& given) {
  std::vector<Region> regions;
  for (const Region& region : given) {
    if (std::string fault = region_fault(tensor, region); !fault.empty()) {
      return region.text() + " " + fault;
    }
    if (region.count() > 0) regions.push_back(region);
  }
  std::ranges::sort(regions, comes_before);
  std::vector<Region> rectangles;
  std::int64_t covered = 0;
  for (std::size_t first = 0, last = 0; first < regions.size(); first = last) {
    while (last < regions.size() && regions[last].same_rectangle(regions[first])) ++last;
    std::string fault = ranges_fault(&regions[first], regions.data() + last);
    if (!fault.empty()) return fault;
    for (const Region& other : rectangles) {
      if (!disjoint(other, regions[first])) {
        return fmt::format("{} overlaps {}", regions[first].text(), other.text());
      }
    }
    rectangles.push_back(regions[first]);
    if (rectangles.size() > max_rectangles) {
      return fmt::format("it is cut into more than {} rectangles", max_rectangles);
    }
    covered += regions[first].shape.count();
  }
  if (covered != tensor.count()) {
    return fmt::format("{} of its {} are missing", tensor.count() - covered,
                       counted(tensor.count(), "element"));
  }
  return "";
}

}  // namespace trireme
