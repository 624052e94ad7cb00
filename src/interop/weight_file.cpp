// The two formats of weight files behind one interface.
#include "interop/weight_file.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "interop/safetensors.h"

namespace trireme {
namespace {

class SafetensorsWeights : public WeightFile {
 public:
  explicit SafetensorsWeights(const fs::path& path)
      : SafetensorsWeights(path, std::make_unique<SafetensorsFile>(path)) {}

  void read(const WeightEntry& tensor, std::int64_t begin, std::int64_t end,
            std::byte* dst) const override {
    const std::int64_t element = size_of(*tensor.dtype);
    data_.read_at(begins_[position(tensor)] + static_cast<std::uint64_t>(begin * element), dst,
                  static_cast<std::size_t>((end - begin) * element));
  }

 private:
  SafetensorsWeights(const fs::path& path, std::unique_ptr<SafetensorsFile> header)
      : WeightFile(path.string(), entries(*header)), data_(path, File::Mode::read) {
    for (const SafetensorsEntry& entry : header->tensors()) begins_.push_back(entry.begin);
  }
  static std::vector<WeightEntry> entries(const SafetensorsFile& header) {
    std::vector<WeightEntry> out;
    for (const SafetensorsEntry& entry : header.tensors())
      out.push_back({entry.name, entry.type, entry.dtype, entry.shape});
    return out;
  }

  File data_;
  std::vector<std::uint64_t> begins_;
};

class TorchWeights : public WeightFile {
 public:
  TorchWeights(std::shared_ptr<const TorchFile> file, std::vector<TorchEntry> found)
      : WeightFile(file->name(), entries(found)), file_(std::move(file)) {
    for (TorchEntry& entry : found) tensors_.push_back(std::move(entry.tensor));
  }

  void read(const WeightEntry& tensor, std::int64_t begin, std::int64_t end,
            std::byte* dst) const override {
    file_->read(tensors_[position(tensor)], begin, end, dst);
  }

 private:
  static std::vector<WeightEntry> entries(const std::vector<TorchEntry>& found) {
    std::vector<WeightEntry> out;
    for (const auto& [name, tensor] : found)
      out.push_back({name, tensor.type->name, tensor.type->ours, tensor.shape});
    return out;
  }

  std::shared_ptr<const TorchFile> file_;
  std::vector<PickleTensor> tensors_;
};

}  // namespace

std::int64_t WeightEntry::count() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return nlohmann::json(shape).dump();
}

WeightFile::WeightFile(std::string name, std::vector<WeightEntry> tensors)
    : name_(std::move(name)), tensors_(std::move(tensors)) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const WeightEntry* WeightFile::find(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &tensors_[at->second];
}

std::unique_ptr<WeightFile> open_weight_file(const fs::path& path) {
  // A damaged file is refused as what its name says that it is.
  if (path.extension() == ".safetensors" && !is_torch_file(path))
    return std::make_unique<SafetensorsWeights>(path);
  auto file = std::make_shared<const TorchFile>(path);
  const PickleId root = file->pickle().root();
  return torch_weights(std::move(file), root);
}

std::unique_ptr<WeightFile> torch_weights(std::shared_ptr<const TorchFile> file, PickleId root) {
  std::vector<TorchEntry> found = torch_entries(file->pickle(), root);
  return std::make_unique<TorchWeights>(std::move(file), std::move(found));
}

bool same_weights(const WeightFile& file, const WeightEntry& tensor, const WeightFile& other_file,
                  const WeightEntry& other) {
  if (tensor.type != other.type || tensor.shape != other.shape || !tensor.dtype) return false;
  constexpr std::int64_t block = std::int64_t{1} << 20;
  const std::int64_t count = tensor.count();
  const auto element = static_cast<std::size_t>(size_of(*tensor.dtype));
  const auto most = static_cast<std::size_t>(std::min(block, count)) * element;
  std::vector<std::byte> one(most), two(most);
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t end = std::min(count, begin + block);
    file.read(tensor, begin, end, one.data());
    other_file.read(other, begin, end, two.data());
    if (std::memcmp(one.data(), two.data(), static_cast<std::size_t>(end - begin) * element) != 0)
      return false;
  }
  return true;
}

}  // namespace trireme
