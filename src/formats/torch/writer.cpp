// Writes a protocol 2 pickle followed by the storages.
#include "formats/torch/writer.h"

#include "base/error.h"
#include "formats/torch/element_type.h"
#include "formats/torch/pickle_writer.h"

namespace trireme {
namespace {

// The pickle of a value, and the sizes of its storages.
class ValuePickle {
 public:
  explicit ValuePickle(const TorchValue& root) { put(root); }

  PickleText text;
  std::vector<std::uint64_t> storages;  // in bytes

 private:
  void put(const TorchValue& value) {
    std::visit([&](const auto& inner) { put(inner); }, value.value);
  }
  void put(std::monostate) { text.put_none(); }
  void put(bool value) { text.put(value); }
  void put(std::int64_t value) { text.put(value); }
  void put(double value) { text.put(value); }
  void put(const std::string& value) { text.put(value); }
  void put(const TorchList& values) {
    text.begin_list();
    for (const TorchValue& value : values) put(value);
    text.end_list();
  }
  void put(const TorchTuple& values) {
    text.begin_tuple();
    for (const TorchValue& value : values.items) put(value);
    text.end_tuple();
  }
  void put(const TorchDict& items) {
    text.begin_dict();
    for (const auto& [key, value] : items) {
      text.put(key);
      put(value);
    }
    text.end_dict();
  }
  void put(const TorchNumbered& numbered) {
    text.begin_dict();
    for (std::size_t i = 0; i < numbered.values.size(); ++i) {
      text.put(static_cast<std::int64_t>(i));
      put(numbered.values[i]);
    }
    text.end_dict();
  }
  void put(const TorchObject& object) {
    text.put_object(object.module, object.name);
    put(object.attributes);
    text.build();
  }
  void put(const TorchTensor& tensor) {
    const auto element = static_cast<std::uint64_t>(size_of(tensor.dtype));
    text.put_name("torch._utils", "_rebuild_tensor_v2");
    text.begin_tuple();
    text.begin_tuple();
    text.put("storage");
    text.put_name("torch", torch_type(tensor.dtype).storage);
    text.put(std::to_string(storages.size()));
    text.put("cpu");
    text.put(static_cast<std::int64_t>(tensor.bytes() / element));
    text.end_tuple();
    text.make_storage();
    text.put(std::int64_t{0});
    text.put_tuple(tensor.shape);
    text.put_tuple(tensor.strides());
    text.put(false);
    text.put_name("collections", "OrderedDict");
    text.put_tuple({});
    text.call();
    text.end_tuple();
    text.call();
    storages.push_back(tensor.bytes());
  }
};

}  // namespace

std::uint64_t TorchTensor::bytes() const {
  auto bytes = static_cast<std::uint64_t>(size_of(dtype));
  for (const std::int64_t size : shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

std::vector<std::int64_t> TorchTensor::strides() const {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = strides.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

TorchWriter::TorchWriter(const fs::path& path, const TorchValue& root, bool always_wide)
    : zip_(path, always_wide), folder_(path.stem().string() + "/") {
  begin(root);
}

TorchWriter::TorchWriter(NewFile& file, std::uint64_t begin, const TorchValue& root)
    : zip_(file, begin), folder_("archive/") {
  this->begin(root);
}

void TorchWriter::begin(const TorchValue& root) {
  ValuePickle pickle(root);
  bytes_ = std::move(pickle.storages);
  zip_.add(folder_ + "data.pkl", pickle.text.take());
  zip_.add(folder_ + "byteorder", "little");
}

void TorchWriter::begin_next() {
  TRIREME_CHECK(next_ < bytes_.size() && (next_ == 0 || written_ == bytes_[next_ - 1]));
  zip_.begin(fmt::format("{}data/{}", folder_, next_), bytes_[next_]);
  ++next_;
  written_ = 0;
}

void TorchWriter::write(std::size_t tensor, std::uint64_t offset, const void* bytes,
                        std::uint64_t count) {
  while (next_ <= tensor) begin_next();
  TRIREME_CHECK(next_ == tensor + 1 && offset == written_);
  zip_.write({static_cast<const std::byte*>(bytes), static_cast<std::size_t>(count)});
  written_ += count;
}

std::uint64_t TorchWriter::finish() {
  while (next_ < bytes_.size()) begin_next();
  TRIREME_CHECK(bytes_.empty() || written_ == bytes_.back());
  zip_.add(folder_ + "version", "3\n");
  return zip_.finish();
}

}  // namespace trireme
