// Implements ldmatrix and mma.sync. Layouts follow NVIDIA's "PTX ISA", section "Warp-level matrix
// instructions". A sum of sixteen products and the addend is computed in double precision and
// rounded once; the hardware's own order and rounding are not documented.
#include <bit>
#include <cstring>

#include "backend/gpu/ptx/decode.h"
#include "backend/gpu/ptx/lanes.h"
#include "backend/gpu/ptx/space.h"
#include "base/dtype.h"

namespace trireme::ptx {
namespace {

// Lane l gives the address of row l % 8 of matrix l / 8 and receives, from each matrix, two
// adjacent elements of row l / 4; with `transposed`, of the transposed matrix.
void load_matrices(Warp& w, const Instruction& i) {
  constexpr std::size_t address_slot = 15;
  const int matrices = i.count;
  const bool transposed = i.targets[0] != 0;
  std::uint16_t elements[4][8][8];
  for (int l = 0; l < 8 * matrices; ++l) {
    const std::uint64_t base = i.wide_address ? w.slot<std::uint64_t>(i.at[address_slot])[l]
                                              : w.slot<std::uint32_t>(i.at[address_slot])[l];
    std::memcpy(
        elements[l / 8][l % 8],
        bytes_at<Space::shared>(w, l, base + static_cast<std::uint64_t>(i.number), 16, Use::read),
        16);
  }
  for (int m = 0; m < matrices; ++m) {
    auto* const to = w.slot<std::uint32_t>(i.at[static_cast<std::size_t>(m)]);
    for (int l = 0; l < lanes; ++l) {
      const int row = l / 4, column = l % 4 * 2;
      const auto& e = elements[m];
      const std::uint16_t first = transposed ? e[column][row] : e[row][column];
      const std::uint16_t second = transposed ? e[column + 1][row] : e[row][column + 1];
      to[l] = std::uint32_t{second} << 16 | first;
    }
  }
}
bool decode_matrix_load(Decoding& d) {
  if (d.name() != "ldmatrix" || !d.has("m8n8") || !d.has("shared") ||
      !d.only({"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared"}))
    return false;
  const auto registers = d.vector_text(0);
  for (std::size_t k = 0; k < registers.size(); ++k) d.to.at[k] = d.slots.of(registers[k], 4);
  d.address(1, 15);
  d.to.count = static_cast<std::uint8_t>(registers.size());
  d.to.targets = {d.has("trans")};
  d.to.flow = Flow::gather;
  d.to.run = load_matrices;
  return registers.size() == (d.has("x4") ? 4U : d.has("x2") ? 2U : 1U);
}

template <class T>
double element(std::uint32_t pair, int half) {
  return static_cast<float>(std::bit_cast<T>(static_cast<std::uint16_t>(half ? pair >> 16 : pair)));
}

// D = A B + C with 16 x 8 elements and 16 steps. Operands: 0-3 D, 4-7 A, 8 and 9 B, 10-13 C.
template <class T>
void multiply(Warp& w, const Instruction& i) {
  double a[16][16], b[16][8], c[16][8];
  for (int l = 0; l < lanes; ++l) {
    const int group = l / 4, in_group = l % 4;
    for (int r = 0; r < 4; ++r) {
      const std::uint32_t pair = w.slot<std::uint32_t>(i.at[static_cast<std::size_t>(4 + r)])[l];
      for (int half = 0; half < 2; ++half)
        a[group + 8 * (r % 2)][2 * in_group + half + 8 * (r / 2)] = element<T>(pair, half);
    }
    for (int r = 0; r < 2; ++r) {
      const std::uint32_t pair = w.slot<std::uint32_t>(i.at[static_cast<std::size_t>(8 + r)])[l];
      for (int half = 0; half < 2; ++half)
        b[2 * in_group + half + 8 * r][group] = element<T>(pair, half);
    }
    for (int r = 0; r < 4; ++r)
      c[group + 8 * (r / 2)][2 * in_group + r % 2] =
          w.slot<float>(i.at[static_cast<std::size_t>(10 + r)])[l];
  }
  for (int row = 0; row < 16; ++row) {
    double sums[8] = {};
    for (int step = 0; step < 16; ++step)
      for (int column = 0; column < 8; ++column) sums[column] += a[row][step] * b[step][column];
    for (int column = 0; column < 8; ++column) c[row][column] += sums[column];
  }
  for (int l = 0; l < lanes; ++l)
    for (int r = 0; r < 4; ++r)
      w.slot<float>(i.at[static_cast<std::size_t>(r)])[l] =
          static_cast<float>(c[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2]);
}
bool decode_product(Decoding& d) {
  if (d.name() != "mma" || !d.has("m16n8k16") || d.statement.operation.size() != 10 ||
      !d.only({"sync", "aligned", "m16n8k16", "row", "col"}, 4))
    return false;
  const auto& types = d.statement.operation;
  if (types[6] != "f32" || types[9] != "f32" || types[7] != types[8]) return false;
  constexpr std::size_t first[] = {0, 4, 8, 10};
  constexpr std::size_t counts[] = {4, 4, 2, 4};
  for (int k = 0; k < 4; ++k) {
    const auto registers = d.vector_text(k);
    if (registers.size() != counts[k]) return false;
    for (std::size_t r = 0; r < registers.size(); ++r)
      d.to.at[first[k] + r] = d.slots.of(registers[r], 4);
  }
  d.to.flow = Flow::gather;
  d.to.run = types[7] == "bf16" ? multiply<bf16> : types[7] == "f16" ? multiply<f16> : nullptr;
  return d.to.run != nullptr;
}

}  // namespace

bool decode_matrices(Decoding& d) {
  return decode_matrix_load(d) || decode_product(d);
}

}  // namespace trireme::ptx
