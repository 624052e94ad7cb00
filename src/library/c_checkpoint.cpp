// The C interface: checkpoint tensors of Trireme and of other programs.
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/thread_pool.h"
#include "importers/folder/formats.h"
#include "library/c_handles.h"

namespace trireme::c {
namespace {

// Sources of tensors, by Trireme's names.
class Tensors {
 public:
  virtual ~Tensors() = default;
  virtual std::int64_t count() const = 0;
  virtual trireme_tensor info(std::int64_t index) const = 0;
  virtual void read(std::int64_t index, bool as_f32, std::byte* to) = 0;
  virtual nlohmann::ordered_json about() const = 0;
};

trireme_tensor tensor_of(const std::string& name, DType dtype, const Shape& shape) {
  trireme_tensor tensor{};
  tensor.name = name.c_str();
  tensor.dtype = name_of(dtype).data();  // points to a string literal
  tensor.rank = shape.rank();
  for (int d = 0; d < shape.rank(); ++d) tensor.shape[d] = shape[d];
  tensor.bytes = shape.count() * size_of(dtype);
  return tensor;
}

class OwnTensors final : public Tensors {
 public:
  explicit OwnTensors(const fs::path& path) : reader_(path) {}

  std::int64_t count() const override {
    return static_cast<std::int64_t>(reader_.manifest().tensors.size());
  }
  trireme_tensor info(std::int64_t index) const override {
    const StoredTensor& tensor = at(index);
    return tensor_of(tensor.name, tensor.dtype, tensor.shape);
  }
  void read(std::int64_t index, bool as_f32, std::byte* to) override {
    const StoredTensor& tensor = at(index);
    const TargetSlice target{.name = tensor.name,
                             .dtype = as_f32 ? DType::f32 : tensor.dtype,
                             .tensor = tensor.shape,
                             .region = Region::whole(tensor.shape),
                             .data = to};
    reader_.read({&target, 1}, {.convert = as_f32, .pool = &ThreadPool::global()});
  }
  nlohmann::ordered_json about() const override {
    return {{"format", "trireme"},
            {"folder", reader_.folder().string()},
            {"step", reader_.state().step},
            {"config", reader_.state().config_toml},
            {"note", ""}};
  }

 private:
  const StoredTensor& at(std::int64_t index) const {
    return reader_.manifest().tensors[static_cast<std::size_t>(index)];
  }
  CheckpointReader reader_;
};

class ForeignTensors final : public Tensors {
 public:
  explicit ForeignTensors(const fs::path& path)
      : folder_(path),
        format_(foreign_format("", path)),
        model_(format_.open(path, {})),
        assembler_(model_.mapping, Direction::to_ours, *model_.weights) {}

  std::int64_t count() const override {
    return static_cast<std::int64_t>(assembler_.targets().size());
  }
  trireme_tensor info(std::int64_t index) const override {
    const auto i = static_cast<std::size_t>(index);
    const NamedTensor& tensor = assembler_.targets()[i];
    return tensor_of(tensor.name, assembler_.dtype(i), tensor.shape);
  }
  void read(std::int64_t index, bool as_f32, std::byte* to) override {
    const auto i = static_cast<std::size_t>(index);
    assembler_.produce(i, as_f32 ? DType::f32 : assembler_.dtype(i), 0,
                       assembler_.targets()[i].shape.count(), to);
  }
  nlohmann::ordered_json about() const override {
    nlohmann::ordered_json json{{"format", format_.name},     {"kind", model_.kind},
                                {"folder", folder_.string()}, {"step", nullptr},
                                {"config", nullptr},          {"note", model_.note}};
    if (model_.training) json["step"] = model_.training->step;
    if (model_.config) json["config"] = to_toml(*model_.config);
    return json;
  }

 private:
  const fs::path folder_;
  const ForeignFormat& format_;
  const ForeignModel model_;
  const TensorAssembler assembler_;
};

}  // namespace
}  // namespace trireme::c

struct trireme_checkpoint {
  std::unique_ptr<trireme::c::Tensors> tensors;

  void check(std::int64_t index) const {
    if (index < 0 || index >= tensors->count())
      trireme::fail_input("there are {}, but number {} was requested",
                          trireme::counted(tensors->count(), "tensor"), index);
  }
};

using namespace trireme::c;

trireme_status trireme_checkpoint_open(const char* path, trireme_checkpoint** checkpoint) {
  return guarded([&] {
    const trireme::fs::path folder = text_of(path, "the folder of the checkpoint");
    auto made = std::make_unique<trireme_checkpoint>();
    if (holds_own_checkpoint(folder))
      made->tensors = std::make_unique<OwnTensors>(folder);
    else
      made->tensors = std::make_unique<ForeignTensors>(folder);
    *checkpoint = made.release();
  });
}

void trireme_checkpoint_close(trireme_checkpoint* checkpoint) {
  delete checkpoint;
}

int64_t trireme_checkpoint_count(const trireme_checkpoint* checkpoint) {
  return checkpoint->tensors->count();
}

trireme_status trireme_checkpoint_tensor(const trireme_checkpoint* checkpoint, int64_t index,
                                         trireme_tensor* tensor) {
  return guarded([&] {
    checkpoint->check(index);
    *tensor = checkpoint->tensors->info(index);
  });
}

trireme_status trireme_checkpoint_json(const trireme_checkpoint* checkpoint, char** text) {
  return guarded([&] { *text = allocate_text(checkpoint->tensors->about().dump()); });
}

trireme_status trireme_checkpoint_read(trireme_checkpoint* checkpoint, int64_t index,
                                       int32_t as_f32, void* memory, int64_t bytes) {
  return guarded([&] {
    checkpoint->check(index);
    const trireme_tensor tensor = checkpoint->tensors->info(index);
    std::int64_t needed = tensor.bytes;
    if (as_f32) {
      needed = 4;
      for (int d = 0; d < tensor.rank; ++d) needed *= tensor.shape[d];
    }
    if (bytes != needed)
      trireme::fail_input("tensor \"{}\" has {}, but the given memory has {}", tensor.name,
                          trireme::counted(needed, "byte"), bytes);
    checkpoint->tensors->read(index, as_f32 != 0, static_cast<std::byte*>(memory));
  });
}
