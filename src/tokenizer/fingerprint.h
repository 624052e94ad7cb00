// Fingerprints of tokenizers: a hash over labeled parts, so that no two lists of parts run
// together.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/hash.h"

namespace trireme {

class Fingerprint {
 public:
  explicit Fingerprint(std::string_view kind) { add(kind); }

  Fingerprint& add(std::string_view part) {
    add(std::uint64_t{part.size()});
    hasher_.update(part.data(), part.size());
    return *this;
  }
  Fingerprint& add(std::uint64_t number) {
    hasher_.update(&number, sizeof number);
    return *this;
  }
  std::uint64_t digest() const { return hasher_.digest(); }

 private:
  Hasher hasher_;
};

}  // namespace trireme
