// Hashing of bytes (XXH3), for checksums on disk and cache keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// 64-bit XXH3 of `count` bytes.
std::uint64_t hash64(const void* bytes, std::size_t count, std::uint64_t seed = 0);
inline std::uint64_t hash64(std::string_view bytes, std::uint64_t seed = 0) {
  return hash64(bytes.data(), bytes.size(), seed);
}

// Streaming hash: the digest equals hash64 of the concatenated pieces.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(const void* bytes, std::size_t count);
  std::uint64_t digest() const;

 private:
  void* state_;
};

// 16 lower-case hexadecimal digits, as written into manifests.
std::string hash_to_text(std::uint64_t hash);

}  // namespace trireme
