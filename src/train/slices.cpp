// Masters and moments as slices.
#include "train/slices.h"

#include <algorithm>

namespace trireme {
namespace {

template <class Byte>
std::vector<Slice<Byte>> collect(const Stage& stage, const Optimizer& optimizer,
                                 const SliceOptions& options,
                                 const std::function<bool(const Parameter&)>& wanted) {
  std::vector<Slice<Byte>> slices;
  for (const OwnedSlice& owned : optimizer.layout().owned()) {
    const Parameter& parameter = stage.definition().parameters[owned.parameter];
    if (!wanted(parameter)) continue;
    for (const PlacedRegion& part : regions_of(parameter.spec, owned.begin, owned.end)) {
      const auto add = [&](const std::string& name, DType dtype, std::byte* data) {
        slices.push_back({name, dtype, parameter.spec.saved_shape, part.region,
                          data + part.offset * size_of(dtype), &stage.device()});
      };
      if (options.weights) add(parameter.name, optimizer.dtype(), optimizer.master(owned));
      for (int m = 0; options.moments && m < optimizer.moments(owned.parameter); ++m)
        add(moment_name(parameter.name, m), optimizer.moment_dtype(), optimizer.moment(owned, m));
    }
  }
  return slices;
}

}  // namespace

std::string moment_name(const std::string& parameter, int which) {
  return (which == 0 ? "optimizer.first_moment." : "optimizer.second_moment.") + parameter;
}

std::vector<PlacedRegion> regions_of(const ParameterSpec& spec, std::int64_t begin,
                                     std::int64_t end) {
  const bool matrix = spec.shape.rank() > 1;
  const std::int64_t columns = matrix ? spec.shape[1] : 1;
  std::vector<RowPiece> pieces = spec.pieces;
  if (pieces.empty()) pieces.push_back({0, 0, spec.shape[0]});
  std::vector<PlacedRegion> regions;
  for (const RowPiece& piece : pieces) {
    const std::int64_t rows = std::min(piece.rows, spec.saved_shape[0] - piece.row);
    const std::int64_t first = piece.local_row * columns;  // of the piece, in this rank's part
    const std::int64_t from = std::max(begin, first);
    const std::int64_t to = std::min(end, first + rows * columns);
    if (from >= to) continue;
    Region region = matrix ? Region::rectangle({piece.row, spec.first_column}, {rows, columns})
                           : Region::rectangle({piece.row}, {rows});
    region.begin = from - first;
    region.end = to - first;
    regions.push_back({region, from - begin});
  }
  return regions;
}

std::vector<SourceSlice> saved_slices(const Stage& stage, const Optimizer& optimizer,
                                      const std::function<bool(const Parameter&)>& saves) {
  return collect<const std::byte>(stage, optimizer, {}, saves);
}

std::vector<TargetSlice> loaded_slices(const Stage& stage, const Optimizer& optimizer,
                                       const SliceOptions& options) {
  return collect<std::byte>(stage, optimizer, options, [](const Parameter&) { return true; });
}

}  // namespace trireme
