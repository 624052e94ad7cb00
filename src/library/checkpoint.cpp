// The public checkpoint reader.
#include <trireme/checkpoint.h>

#include "base/error.h"
#include "checkpoint/reader.h"
#include "library/impl.h"

namespace trireme::v1 {

struct Checkpoint::Impl {
  CheckpointReader reader;
};

Checkpoint::Checkpoint(const std::string& path)
    : impl_(at_the_border([&] { return std::make_unique<Impl>(Impl{CheckpointReader(path)}); })) {}

Checkpoint::~Checkpoint() = default;

std::string Checkpoint::folder() const {
  return impl_->reader.folder().string();
}
std::int64_t Checkpoint::step() const {
  return impl_->reader.state().step;
}
std::string Checkpoint::config() const {
  return impl_->reader.state().config_toml;
}

std::vector<TensorInfo> Checkpoint::tensors() const {
  std::vector<TensorInfo> list;
  for (const StoredTensor& tensor : impl_->reader.manifest().tensors) {
    TensorInfo info{tensor.name, std::string(name_of(tensor.dtype)), {}};
    for (int d = 0; d < tensor.shape.rank(); ++d) info.shape.push_back(tensor.shape[d]);
    list.push_back(std::move(info));
  }
  return list;
}

std::vector<float> Checkpoint::read(const std::string& name) const {
  return at_the_border([&] {
    const StoredTensor* const tensor = impl_->reader.find(name);
    if (!tensor)
      fail_input("'{}' has no tensor \"{}\": Checkpoint::tensors() lists them", folder(), name);
    std::vector<float> values(static_cast<std::size_t>(tensor->shape.count()));
    const TargetSlice target{.name = name,
                             .dtype = DType::f32,
                             .tensor = tensor->shape,
                             .region = Region::whole(tensor->shape),
                             .data = reinterpret_cast<std::byte*>(values.data())};
    impl_->reader.read({&target, 1}, {.convert = true, .pool = &ThreadPool::global()});
    return values;
  });
}

}  // namespace trireme::v1
