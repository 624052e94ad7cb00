// Wraps XXH3, so that its header is included only here.
#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace trireme {

std::uint64_t hash64(const void* bytes, std::size_t count, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, count, seed);
}

Hasher::Hasher() : state_(XXH3_createState()) {
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}

Hasher::~Hasher() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}

void Hasher::update(const void* bytes, std::size_t count) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), bytes, count);
}

std::uint64_t Hasher::digest() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

std::string hash_to_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace trireme
