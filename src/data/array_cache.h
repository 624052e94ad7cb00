// Disk cache of arrays by key, for arrays that take long to build. A file that is missing, damaged
// or stored under another key is a cache miss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/file.h"

namespace trireme {

struct CachedArrays {
  // The bytes of each array, 64-byte aligned.
  std::vector<std::span<const std::byte>> arrays;
  // Keeps the mapped file, which the spans point into.
  std::shared_ptr<const MappedFile> file;

  // Array `i` as elements of T.
  template <class T>
  std::span<const T> get(std::size_t i) const {
    return {reinterpret_cast<const T*>(arrays[i].data()), arrays[i].size() / sizeof(T)};
  }
};

// Maps the arrays in `path` if they are complete, `count` in number and stored under `key`.
std::optional<CachedArrays> load_arrays(const fs::path& path, std::uint64_t key, std::size_t count);

// Stores arrays atomically with respect to readers and concurrent writers. Returns false if the
// folder cannot be written, since a cache failure is not an error.
bool store_arrays(const fs::path& path, std::uint64_t key,
                  std::span<const std::span<const std::byte>> arrays);

}  // namespace trireme
