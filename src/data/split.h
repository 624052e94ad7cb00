// Splitting a corpus into training, validation and test parts by weights.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

enum class Split { train = 0, valid = 1, test = 2 };
constexpr const char* name_of(Split split) {
  constexpr const char* names[] = {"train", "valid", "test"};
  return names[static_cast<int>(split)];
}

// A half-open range of elements of a corpus, in corpus order.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// The share of each split as a half-open interval of [0, 1]; none for a weight of zero.
struct Share {
  double begin = 0, end = 1;
};
using Shares = std::array<std::optional<Share>, 3>;

// Reads up to three weights, as in "969,30,1"; missing ones are zero. Throws bad_input for what is
// no weight and where all are zero.
Shares parse_split(const std::string& text);

// The elements of `count` that belong to a share: [round(begin * count), round(end * count)), where
// halves round to even as in Megatron.
Range range_of(const Share& share, std::int64_t count);

}  // namespace trireme
