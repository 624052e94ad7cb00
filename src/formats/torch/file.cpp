// Reads tensor elements with any strides.
#include "formats/torch/file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "formats/torch/zip_archive.h"

namespace trireme {

TorchFile::TorchFile(const fs::path& path) : name_(path.string()) {
  if (fs::is_directory(path))
    fail_input("'{}' is a folder, and a torch.save file is expected", name_);
  bytes_ = std::make_shared<TorchBytes>(path);
  size_ = bytes_->map.bytes().size();
  content_ = parse_torch_file(bytes_->map.bytes(), name_);
  for (std::size_t i = 0; i < content_.storages.size(); ++i) checked_.emplace_back(false);
}

TorchFile::TorchFile(std::shared_ptr<const TorchBytes> bytes, std::uint64_t begin,
                     std::uint64_t size, const std::string& name)
    : bytes_(std::move(bytes)), begin_(begin), size_(size), name_(name) {
  const std::uint64_t all = bytes_->map.bytes().size();
  if (begin > all || size > all - begin) {
    fail_input("'{}' would lie in bytes {} to {} of a file that has {}", name_, begin, begin + size,
               all);
  }
  content_ = parse_torch_file(bytes_->map.bytes().subspan(begin, size), name_);
  for (std::size_t i = 0; i < content_.storages.size(); ++i) checked_.emplace_back(false);
}

void TorchFile::verify() const {
  for (std::size_t i = 0; i < content_.storages.size(); ++i) check(i);
}

void TorchFile::check(std::size_t storage) const {
  const TorchExtent& extent = content_.storages[storage];
  if (!extent.crc || checked_[storage].load(std::memory_order_acquire)) return;
  const std::scoped_lock lock(mutex_);
  if (checked_[storage].load(std::memory_order_relaxed)) return;
  constexpr std::uint64_t block = std::uint64_t{1} << 20;
  std::vector<std::byte> memory(static_cast<std::size_t>(std::min(block, extent.bytes)));
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < extent.bytes; done += block) {
    const auto count = static_cast<std::size_t>(std::min(block, extent.bytes - done));
    bytes_->data.read_at(begin_ + extent.begin + done, memory.data(), count);
    crc = zip_crc(crc, {memory.data(), count});
  }
  if (crc != *extent.crc) {
    fail_input("'{}' is damaged: the checksum of its storage 'data/{}' is wrong", name_,
               printable(pickle().storages()[storage].key));
  }
  checked_[storage].store(true, std::memory_order_release);
}

void TorchFile::read(const PickleTensor& tensor, std::int64_t begin, std::int64_t end,
                     std::byte* dst) const {
  TRIREME_CHECK(begin >= 0 && begin <= end && end <= tensor.count());
  if (begin == end) return;
  check(tensor.storage);
  if (!tensor.is_contiguous()) return gather(tensor, begin, end, dst);
  const auto element = static_cast<std::uint64_t>(tensor.type->bytes);
  const std::uint64_t first = begin_ + content_.storages[tensor.storage].begin +
                              static_cast<std::uint64_t>(tensor.offset + begin) * element;
  bytes_->data.read_at(first, dst, static_cast<std::size_t>(end - begin) * element);
}

// Transposed tensors and views are rare: read element by element from the mapped file.
void TorchFile::gather(const PickleTensor& tensor, std::int64_t begin, std::int64_t end,
                       std::byte* dst) const {
  const auto element = static_cast<std::size_t>(tensor.type->bytes);
  const std::byte* storage =
      bytes_->map.bytes().data() + begin_ + content_.storages[tensor.storage].begin;
  const std::size_t rank = tensor.shape.size();
  std::vector<std::int64_t> index(rank);
  std::int64_t at = tensor.offset, rest = begin;
  for (std::size_t i = rank; i-- > 0;) {
    index[i] = rest % tensor.shape[i];
    rest /= tensor.shape[i];
    at += index[i] * tensor.strides[i];
  }
  for (std::int64_t i = begin; i < end; ++i, dst += element) {
    std::memcpy(dst, storage + static_cast<std::size_t>(at) * element, element);
    for (std::size_t axis = rank; axis-- > 0;) {
      at += tensor.strides[axis];
      if (++index[axis] < tensor.shape[axis]) break;
      at -= index[axis] * tensor.strides[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace trireme
