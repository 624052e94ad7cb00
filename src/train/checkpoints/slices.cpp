// Exposes masters and moments as slices.
#include "train/checkpoints/slices.h"

#include <algorithm>

namespace trireme {
namespace {

// Access to a rank's states that are outside its device memory.
class StatesElsewhere final : public SliceStore {
 public:
  explicit StatesElsewhere(States& states) : states_(states) { states.open(); }

  void read(std::int64_t begin, std::int64_t count,
            const std::function<void(const std::byte*)>& use) override {
    states_.store()->read_now(begin, count, use);
  }
  void write(std::int64_t begin, std::int64_t count,
             const std::function<void(std::byte*)>& fill) override {
    states_.store()->write_now(begin, count, fill);
  }

 private:
  States& states_;
};

// `wanted(parameter)`: number of leading elements to include.
template <class Byte>
std::vector<Slice<Byte>> collect(const Stage& stage, Optimizer& optimizer,
                                 const SliceOptions& options,
                                 const std::function<std::int64_t(const Parameter&)>& wanted) {
  std::vector<Slice<Byte>> slices;
  States& states = optimizer.states();
  std::shared_ptr<SliceStore> store;
  if (states.elsewhere()) store = std::make_shared<StatesElsewhere>(states);
  for (const OwnedSlice& owned : optimizer.layout().owned()) {
    const Parameter& parameter = stage.definition().parameters[owned.parameter];
    const std::int64_t end = std::min(owned.end, wanted(parameter));
    for (const PlacedRegion& part : regions_of(parameter.spec, owned.begin, end)) {
      const auto add = [&](const std::string& name, DType dtype, StateArray array) {
        Slice<Byte>& slice = slices.emplace_back(name, dtype, parameter.spec.saved_shape,
                                                 part.region, nullptr, &stage.device());
        const std::int64_t begin = part.offset * size_of(dtype);
        if (store && states.has(array, owned.bucket)) {
          slice.store = store;
          slice.store_begin = states.place(array, owned) + begin;
        } else {
          slice.data =
              (array == StateArray::master ? optimizer.master(owned) : states.at(array, owned)) +
              begin;
        }
      };
      if (options.weights) add(parameter.name, optimizer.dtype(), StateArray::master);
      for (int m = 0; options.moments && m < optimizer.moments(owned.parameter); ++m)
        add(moment_name(parameter.name, m), optimizer.moment_dtype(), moment_array(m));
    }
  }
  return slices;
}

}  // namespace

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

std::vector<SourceSlice> saved_slices(const Stage& stage, Optimizer& optimizer,
                                      const std::function<bool(const Parameter&)>& saves) {
  return collect<const std::byte>(stage, optimizer, {}, [&](const Parameter& p) {
    return saves(p) ? p.spec.owned_count() : 0;
  });
}

std::vector<TargetSlice> loaded_slices(const Stage& stage, Optimizer& optimizer,
                                       const SliceOptions& options) {
  return collect<std::byte>(stage, optimizer, options,
                            [](const Parameter& p) { return p.spec.shape.count(); });
}

}  // namespace trireme
