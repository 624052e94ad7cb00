// Opens all files at once and their items on demand.
#include "formats/dcp/folder.h"

#include <fmt/ranges.h>

#include <cstring>

#include "base/error.h"
#include "base/printable.h"

namespace trireme {
namespace {

constexpr std::uint64_t most_metadata = std::uint64_t{1} << 30;
constexpr std::size_t most_opened = 512;

DcpMetadata read_metadata(const fs::path& folder) {
  const fs::path path = folder / dcp_metadata_file;
  if (!fs::exists(path)) {
    fail_input(
        "'{}' has no '{}', which torch.distributed.checkpoint writes last: the save was "
        "interrupted, or the file, whose name begins with a dot, was not copied",
        folder.string(), dcp_metadata_file);
  }
  return parse_dcp_metadata(read_file(path, most_metadata), path.string());
}

std::optional<double> as_number(const TorchFile& file) {
  const Pickle& pickle = file.pickle();
  const PickleValue& value = pickle[pickle.root()];
  if (value.kind == PickleKind::integer) return static_cast<double>(value.integer);
  if (value.kind == PickleKind::real) return value.real();
  if (value.kind != PickleKind::tensor) return std::nullopt;
  const PickleTensor& tensor = pickle.tensor(pickle.root());
  std::byte bytes[8];
  if (tensor.count() != 1 || !tensor.type->ours) return std::nullopt;
  file.read(tensor, 0, 1, bytes);
  const auto number = [&]<class T>(T) -> double {
    T read;
    std::memcpy(&read, bytes, sizeof read);
    return static_cast<double>(read);
  };
  const DType type = *tensor.type->ours;
  if (type == DType::f32) return number(float{});
  if (type == DType::f64) return number(double{});
  if (type == DType::i32) return number(std::int32_t{});
  if (type == DType::i64) return number(std::int64_t{});
  return std::nullopt;
}

}  // namespace

bool is_dcp_folder(const fs::path& folder) {
  return fs::exists(folder / dcp_metadata_file) || fs::exists(folder / "__0_0.distcp");
}

DcpFolder::DcpFolder(const fs::path& folder)
    : where_(folder.string()), metadata_(read_metadata(folder)) {
  for (const std::string& file : metadata_.files) {
    if (!fs::exists(folder / file)) {
      fail_input("'{}' is incomplete: '{}', which its {} refers to, is missing", where_,
                 printable(file), dcp_metadata_file);
    }
    files_.push_back(std::make_shared<const TorchBytes>(folder / file));
    bytes_ += files_.back()->map.bytes().size();
  }
  for (const DcpTensor& tensor : metadata_.tensors) tensors_.emplace(tensor.name, &tensor);
  for (const DcpValue& value : metadata_.values) values_.emplace(value.name, &value);
}

const DcpTensor* DcpFolder::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : at->second;
}

std::shared_ptr<const TorchFile> DcpFolder::open(const DcpItem& item, std::string_view name) const {
  const Place place{item.file, item.begin};
  {
    const std::scoped_lock lock(mutex_);
    const auto at = opened_.find(place);
    if (at != opened_.end() && at->second->size() == item.bytes) return at->second;
  }
  const std::string shown =
      fmt::format("{}/{}: {}", where_, metadata_.files[item.file], printable(name));
  auto file = std::make_shared<const TorchFile>(files_[item.file], item.begin, item.bytes, shown);
  const std::scoped_lock lock(mutex_);
  if (opened_.size() == most_opened) opened_.clear();
  opened_[place] = file;
  return file;
}

std::shared_ptr<const TorchFile> DcpFolder::open(const DcpTensor& tensor,
                                                 const DcpChunk& chunk) const {
  auto file = open(chunk.item, tensor.name);
  const Pickle& pickle = file->pickle();
  const PickleId root = pickle.root();
  const PickleTensor* held =
      pickle.kind(root) == PickleKind::tensor ? &pickle.tensor(root) : nullptr;
  if (!held || held->shape != chunk.sizes || held->type->name != tensor.type->name) {
    fail_input("'{}' contains {} of {}, but {} says that it is a tensor of shape [{}] of {}",
               file->name(), pickle.shown(root), held ? held->type->name : "no elements",
               dcp_metadata_file, fmt::join(chunk.sizes, ","), tensor.type->name);
  }
  return file;
}

std::shared_ptr<const TorchFile> DcpFolder::open(std::string_view value) const {
  const auto at = values_.find(value);
  return at == values_.end() ? nullptr : open(at->second->item, value);
}

std::optional<double> DcpFolder::number(std::string_view name) const {
  const DcpTensor* tensor = find(name);
  if (tensor && tensor->chunks.size() == 1) return as_number(*open(*tensor, tensor->chunks[0]));
  const auto value = open(name);
  return value ? as_number(*value) : std::nullopt;
}

}  // namespace trireme
