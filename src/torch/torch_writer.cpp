// A pickle of protocol 2, without references to earlier values, and the storages after it.
#include "torch/torch_writer.h"

#include <bit>
#include <limits>

#include "base/error.h"
#include "torch/element_type.h"
#include "torch/little_endian.h"

namespace trireme {
namespace {

class PickleText {
 public:
  explicit PickleText(const TorchValue& root) {
    text = "\x80\x02";
    std::visit([&](const auto& value) { put(value); }, root.value);
    text += '.';
  }
  std::string text;
  std::vector<std::uint64_t> storages;  // their sizes in bytes

 private:
  void put(const TorchValue& value) {
    std::visit([&](const auto& inner) { put(inner); }, value.value);
  }
  void put(std::monostate) { text += 'N'; }
  void put(bool value) { text += value ? '\x88' : '\x89'; }
  void put(std::int64_t value) {
    using Narrow = std::numeric_limits<std::int32_t>;
    if (value >= Narrow::min() && value <= Narrow::max()) {
      text += 'J' + little_endian(static_cast<std::int32_t>(value));
    } else {
      text += "\x8a\x08" + little_endian(value);
    }
  }
  void put(double value) {
    const auto bits = __builtin_bswap64(std::bit_cast<std::uint64_t>(value));
    text += 'G' + little_endian(bits);
  }
  void put(const std::string& value) {
    text += 'X' + little_endian(static_cast<std::uint32_t>(value.size())) + value;
  }
  void put(const TorchList& values) {
    text += "](";
    for (const TorchValue& value : values) put(value);
    text += 'e';
  }
  void put(const TorchDict& items) {
    text += "}(";
    for (const auto& [key, value] : items) {
      put(key);
      put(value);
    }
    text += 'u';
  }
  void put_name(const std::string& module, std::string_view name) {
    text += "c" + module + "\n" + std::string(name) + "\n";
  }
  void put_tuple(const std::vector<std::int64_t>& values) {
    text += '(';
    for (const std::int64_t value : values) put(value);
    text += 't';
  }
  void put(const TorchTensor& tensor) {
    const auto element = static_cast<std::uint64_t>(size_of(tensor.dtype));
    put_name("torch._utils", "_rebuild_tensor_v2");
    text += "((";
    put(std::string("storage"));
    put_name("torch", torch_type(tensor.dtype).storage);
    put(std::to_string(storages.size()));
    put(std::string("cpu"));
    put(static_cast<std::int64_t>(tensor.bytes() / element));
    text += "tQ";
    put(std::int64_t{0});
    put_tuple(tensor.shape);
    std::vector<std::int64_t> strides(tensor.shape.size(), 1);
    for (std::size_t i = strides.size(); i > 1; --i)
      strides[i - 2] = strides[i - 1] * tensor.shape[i - 1];
    put_tuple(strides);
    text += '\x89';
    put_name("collections", "OrderedDict");
    text += ")RtR";
    storages.push_back(tensor.bytes());
  }
};

}  // namespace

std::uint64_t TorchTensor::bytes() const {
  auto bytes = static_cast<std::uint64_t>(size_of(dtype));
  for (const std::int64_t size : shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

TorchWriter::TorchWriter(const fs::path& path, const TorchValue& root, bool always_wide)
    : zip_(path, always_wide), folder_(path.stem().string() + "/") {
  PickleText pickle(root);
  bytes_ = std::move(pickle.storages);
  zip_.add(folder_ + "data.pkl", pickle.text);
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

void TorchWriter::finish() {
  while (next_ < bytes_.size()) begin_next();
  TRIREME_CHECK(bytes_.empty() || written_ == bytes_.back());
  zip_.add(folder_ + "version", "3\n");
  zip_.finish();
}

}  // namespace trireme
