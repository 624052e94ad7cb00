// Implements weight files for safetensors and torch.save.
#include "formats/weight_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tensors/cast.h"
#include "tensors/safetensors.h"

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
      : WeightFile(file->name(), entries(*file, found)), file_(std::move(file)) {
    for (TorchEntry& entry : found) tensors_.push_back(std::move(entry.tensor));
  }

  void read(const WeightEntry& tensor, std::int64_t begin, std::int64_t end,
            std::byte* dst) const override {
    file_->read(tensors_[position(tensor)], begin, end, dst);
  }

 private:
  static std::vector<WeightEntry> entries(const TorchFile& file,
                                          const std::vector<TorchEntry>& found) {
    std::vector<WeightEntry> out;
    for (const auto& [name, tensor] : found)
      out.push_back(
          {name, tensor.type->name, tensor.type->ours, tensor.shape, file.repeats(tensor)});
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
  // A damaged file is reported as the format that its name indicates.
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
  return tensor.type == other.type && is_rounded_from(file, tensor, other_file, other);
}

bool is_rounded_from(const WeightFile& file, const WeightEntry& tensor,
                     const WeightFile& exact_file, const WeightEntry& exact) {
  if (tensor.shape != exact.shape || !tensor.dtype || !exact.dtype) return false;
  const auto of = [](const WeightFile& from, const WeightEntry& entry) {
    return ElementSource{*entry.dtype, [&](std::int64_t begin, std::int64_t end, std::byte* dst) {
                           from.read(entry, begin, end, dst);
                         }};
  };
  return same_when_cast(of(file, tensor), of(exact_file, exact), tensor.count());
}

}  // namespace trireme
