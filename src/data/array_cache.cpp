// Form of the file: Header, u64 size of each array, then the arrays, each at a multiple of 64.
#include "data/array_cache.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/divide.h"
#include "base/error.h"
#include "base/hash.h"

namespace trireme {
namespace {

constexpr std::uint64_t kMagic = 0x31656d6572697254;  // "Trireme1"
constexpr std::int64_t kAlign = 64;

struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t key = 0;
  std::uint64_t count = 0;
  std::uint64_t checksum = 0;  // of everything after the header
};

std::uint64_t aligned(std::uint64_t at) {
  return static_cast<std::uint64_t>(round_up(static_cast<std::int64_t>(at), kAlign));
}

// Calls emit(bytes, count) for everything after the header, in order.
template <class Emit>
void for_each_part(std::span<const std::span<const std::byte>> arrays, Emit&& emit) {
  constexpr std::byte zeros[kAlign] = {};
  std::uint64_t at = sizeof(Header);
  for (const auto& array : arrays) {
    const std::uint64_t size = array.size();
    emit(&size, sizeof(size));
    at += sizeof(size);
  }
  for (const auto& array : arrays) {
    emit(zeros, aligned(at) - at);
    emit(array.data(), array.size());
    at = aligned(at) + array.size();
  }
}

}  // namespace

std::optional<CachedArrays> load_arrays(const fs::path& path, std::uint64_t key,
                                        std::size_t count) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  CachedArrays result;
  try {
    result.file = std::make_shared<MappedFile>(path);
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::span<const std::byte> bytes = result.file->bytes();
  std::uint64_t at = sizeof(Header) + count * sizeof(std::uint64_t);
  if (bytes.size() < at) return std::nullopt;
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic || header.key != key || header.count != count ||
      header.checksum != hash64(bytes.data() + sizeof(header), bytes.size() - sizeof(header))) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t size;
    std::memcpy(&size, bytes.data() + sizeof(header) + i * sizeof(size), sizeof(size));
    at = aligned(at);
    if (at > bytes.size() || size > bytes.size() - at) return std::nullopt;
    result.arrays.push_back(bytes.subspan(at, size));
    at += size;
  }
  // The checksum read every page. A process keeps only those that it uses; the others stay in the
  // machine's page cache.
  ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_DONTNEED);
  return result;
}

bool store_arrays(const fs::path& path, std::uint64_t key,
                  std::span<const std::span<const std::byte>> arrays) {
  try {
    make_folders(path.parent_path());
    NewFile file(path, fmt::format(".{}.tmp", ::getpid()));
    Header header{.key = key, .count = arrays.size()};
    Hasher hasher;
    for_each_part(arrays, [&](const void* bytes, std::size_t n) { hasher.update(bytes, n); });
    header.checksum = hasher.digest();
    file.file().write(&header, sizeof(header));
    for_each_part(arrays, [&](const void* bytes, std::size_t n) { file.file().write(bytes, n); });
    file.keep_unsynced();  // a file damaged in a crash has a wrong checksum and is built again
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace trireme
