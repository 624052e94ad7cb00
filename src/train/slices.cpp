// Masters and moments as slices.
#include "train/slices.h"

namespace trireme {
namespace {

// Padding stands behind the saved rows, so that the saved part is one block at the beginning.
template <class Byte>
Slice<Byte> whole(const std::string& name, DType dtype, const ParameterSpec& spec, void* data) {
  return {name, dtype, spec.saved_shape, Region::whole(spec.saved_shape), static_cast<Byte*>(data)};
}

template <class Byte>
std::vector<Slice<Byte>> collect(const Stage& stage, const Optimizer& optimizer,
                                 const SliceOptions& options) {
  std::vector<Slice<Byte>> slices;
  const auto& parameters = stage.definition().parameters;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    const auto& [name, spec, offset] = parameters[p];
    if (options.weights)
      slices.push_back(whole<Byte>(name, optimizer.dtype(), spec, optimizer.master(p)));
    for (int m = 0; options.moments && m < optimizer.moments(); ++m) {
      slices.push_back(
          whole<Byte>(moment_name(name, m), optimizer.dtype(), spec, optimizer.moment(p, m)));
    }
  }
  return slices;
}

}  // namespace

std::string moment_name(const std::string& parameter, int which) {
  return (which == 0 ? "optimizer.first_moment." : "optimizer.second_moment.") + parameter;
}

std::vector<SourceSlice> saved_slices(const Stage& stage, const Optimizer& optimizer) {
  return collect<const std::byte>(stage, optimizer, {});
}

std::vector<TargetSlice> loaded_slices(const Stage& stage, const Optimizer& optimizer,
                                       const SliceOptions& options) {
  return collect<std::byte>(stage, optimizer, options);
}

}  // namespace trireme
