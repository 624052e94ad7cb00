// Decoder of MXFP4 weights: reads the rows of experts and transposes them.
#include "formats/huggingface/mxfp4.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/printable.h"

namespace trireme {
namespace {

constexpr std::int64_t numbers_of_block = 32, bytes_of_block = 16;
constexpr float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

void check_part(const Mxfp4Part& part, const std::string& name, std::string_view ending,
                const std::vector<std::int64_t>& shape) {
  if (!part.entry) {
    fail_input("'{}{}', one half of an MXFP4 weight, is missing: copy all files", printable(name),
               ending);
  }
  if (part.entry->shape == shape && part.entry->dtype == DType::u8) return;
  fail_input("'{}': tensor '{}' is {} {}, but its config.json says U8 {}", part.file->name(),
             printable(part.entry->name), part.entry->type, shape_text(part.entry->shape),
             shape_text(shape));
}

std::vector<std::uint8_t> bytes_of(const Mxfp4Part& part, std::int64_t begin, std::int64_t end) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(end - begin));
  part.file->read(*part.entry, begin, end, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

float number(std::uint8_t code, std::uint8_t scale) {
  const float size = std::ldexp(e2m1[code & 7], scale - 127);
  return code & 8 ? -size : size;
}

}  // namespace

void check_mxfp4(const Mxfp4Weight& weight, const std::string& name, const Shape& shape) {
  const std::int64_t experts = shape[0], in = shape[1], out = shape[2];
  if (in % numbers_of_block != 0) {
    fail_input("'{}' is in MXFP4 with blocks of {} numbers, but config.json implies rows of {}",
               printable(name), numbers_of_block, in);
  }
  const std::int64_t blocks = in / numbers_of_block;
  check_part(weight.blocks, name, mxfp4_blocks_ending, {experts, out, blocks, bytes_of_block});
  check_part(weight.scales, name, mxfp4_scales_ending, {experts, out, blocks});
}

void read_mxfp4(const Mxfp4Weight& weight, const Rectangle& part, std::byte* dst) {
  const std::vector<std::int64_t>& shape = weight.scales.entry->shape;
  const std::int64_t out = shape[1], blocks = shape[2], in = blocks * numbers_of_block;
  // Rows of the part lie in one expert.
  const std::int64_t expert = part.row / in, first = part.row % in, end = first + part.rows;
  TRIREME_CHECK(end <= in);
  const std::int64_t first_block = first / numbers_of_block,
                     end_block = (end + numbers_of_block - 1) / numbers_of_block;
  for (std::int64_t column = 0; column < part.columns; ++column) {
    const std::int64_t before = (expert * out + part.column + column) * blocks;
    const std::int64_t from = before + first_block, to = before + end_block;
    const auto codes = bytes_of(weight.blocks, from * bytes_of_block, to * bytes_of_block);
    const auto scales = bytes_of(weight.scales, from, to);
    if (std::ranges::find(scales, 255) != scales.end()) {
      fail_input("'{}': tensor '{}' has a scale that is not a number (255)",
                 weight.scales.file->name(), printable(weight.scales.entry->name));
    }
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t at = i - first_block * numbers_of_block;
      const std::uint8_t both = codes[static_cast<std::size_t>(at / 2)];
      const auto code = static_cast<std::uint8_t>(at % 2 == 0 ? both & 15 : both >> 4);
      const bf16 value(number(code, scales[static_cast<std::size_t>(at / numbers_of_block)]));
      std::memcpy(dst + ((i - first) * part.columns + column) * size_of(DType::bf16), &value,
                  sizeof value);
    }
  }
}

}  // namespace trireme
