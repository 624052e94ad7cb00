// Both operands are stored with the summed dimension contiguous, as all 8-bit matrix units require:
// for gradients they are transposed during quantization.
#include "graph/ops/fp8_bytes.h"

#include <algorithm>

namespace trireme::ops {
namespace {

bool is_tensorwise(const Graph& g) {
  return g.fp8().recipe == Fp8Recipe::tensorwise;
}

// Number of rows of each call, such that every operand has one scale per call, or whole blocks; 0:
// not possible. Blocks of exact numerics are separate calls.
std::int64_t rows_of_call(const Graph& g, Product product, const Fp8Operands& o) {
  const std::int64_t block = RowBlocks(g, o.a.rows).rows;
  if (is_tensorwise(g)) {
    const std::int64_t sequence = g.fp8().sequence_rows, rows = std::min(block, sequence);
    return block % rows == 0 && sequence % rows == 0 ? rows : 0;
  }
  if (o.a.cols % fp8_block != 0 || o.b.cols % fp8_block != 0) return 0;
  if (product == Product::weight_grad)
    return o.a.run % fp8_block == 0 && block % o.a.run == 0 ? block : 0;
  return o.b.rows % fp8_block == 0 ? block : 0;
}

// Memory layout of the inverse scales (Kernels<T>::fp8_inverse_scales).
struct ScaleTable {
  std::int64_t chunk, ld, count;

  ScaleTable(const Fp8Tiles& tiles, std::int64_t bands_of_chunk, std::int64_t leading)
      : chunk(bands_of_chunk),
        ld(leading),
        count((chunk == 0 ? tiles.bands() : tiles.bands() / chunk * tiles.tiles_of_row()) * ld) {}
};

std::int64_t in_fours(std::int64_t count) {
  return (count + 3) / 4 * 4;
}

// Scales of rows: by sequence, or by block of the summed dimension.
ScaleTable scales_of_rows(const Graph& g, Product product, const Fp8Tiles& tiles,
                          std::int64_t rows) {
  if (is_tensorwise(g)) return {tiles, 0, 1};
  if (product == Product::weight_grad) return {tiles, 0, tiles.cols};
  return {tiles, rows, rows};
}
// Scales of a weight.
ScaleTable scales_of_weight(const Graph& g, Product product, const Fp8Tiles& tiles) {
  if (is_tensorwise(g)) return {tiles, 0, 1};
  if (product == Product::forward) return {tiles, 0, in_fours(tiles.tiles_of_row())};
  return {tiles, tiles.bands(), in_fours(tiles.bands())};
}

struct BytesInScratch {
  std::int64_t rows;  // per call
  ScaleTable scales_a, scales_b;
  std::int64_t largest = 0, inverse_a = 0, inverse_b = 0, bytes_a = 0, bytes_b = 0, rest = 0;

  BytesInScratch(const Graph& g, Product product, const Fp8Operands& o, std::int64_t rows_of_call)
      : rows(rows_of_call),
        scales_a(scales_of_rows(g, product, o.a, rows)),
        scales_b(product == Product::weight_grad ? scales_of_rows(g, product, o.b, rows)
                                                 : scales_of_weight(g, product, o.b)) {
    const std::int64_t scale = size_of(DType::f32);
    LineParts parts;
    largest = parts.add((o.a.count() + o.b.count()) * scale);
    inverse_a = parts.add(scales_a.count * scale);
    inverse_b = parts.add(scales_b.count * scale);
    bytes_a = parts.add(o.a.rows * o.a.cols);
    bytes_b = parts.add(o.b.rows * o.b.cols);
    rest = parts.bytes;
  }
};

// Part `number` of an operand that is split by rows.
Fp8Operand part_of(const Graph& g, const Fp8Operand& all, const Fp8Tiles& tiles,
                   const ScaleTable& scales, std::int64_t rows, std::int64_t number) {
  const std::int64_t first = number * rows;
  const std::int64_t scale = is_tensorwise(g)    ? tiles.band_of(first)
                             : scales.chunk == 0 ? tiles.band_of(first) * scales.ld
                                                 : number * tiles.tiles_of_row() * scales.ld;
  return {all.bytes + first * tiles.cols, all.inverse_scales + scale};
}

}  // namespace

std::shared_ptr<const Fp8Prepared> prepare_fp8(Device& device, const Graph& g, Product product,
                                               const LinearShape& shape, const Fp8Operands& o) {
  auto prepared = std::make_shared<Fp8Prepared>();
  prepared->own = device.linear(o.type, product, shape);
  const std::int64_t rows = rows_of_call(g, product, o);
  if (rows > 0) {
    const DType result = product == Product::weight_grad ? DType::f32 : g.compute();
    prepared->library = device.fp8_linear(result, product, {rows, shape.in, shape.out},
                                          {o.a.type, o.b.type, g.fp8().recipe});
  }
  return prepared;
}

std::int64_t fp8_bytes_scratch(const Graph& g, Product product, const Fp8Operands& o) {
  const std::int64_t rows = rows_of_call(g, product, o);
  return rows > 0 ? BytesInScratch(g, product, o, rows).rest : 0;
}

template <class T>
void launch_fp8_bytes(const Launch& l, Product product, const Fp8Operands& o,
                      const Fp8Product& library, const T* bias, std::byte* gradient,
                      std::byte* scratch) {
  const Graph& g = l.graph;
  const BytesInScratch in(g, product, o, rows_of_call(g, product, o));
  const bool sums = product == Product::weight_grad, in_blocks = sums && g.exact_block() > 0;
  const Kernels<T>& kernels = l.device.kernels<T>();
  const auto floats = [&](std::int64_t at) { return reinterpret_cast<float*>(scratch + at); };
  const auto operand = [&](const Fp8Tiles& tiles, const float* largest, std::int64_t bytes,
                           std::int64_t chunk, std::int64_t inverse, const ScaleTable& scales,
                           const T* x) {
    auto* const to = reinterpret_cast<std::uint8_t*>(scratch + bytes);
    kernels.fp8_bytes(l.queue, tiles, largest, to, x, chunk);
    kernels.fp8_inverse_scales(l.queue, tiles, largest, floats(inverse), scales.chunk, scales.ld);
    return Fp8Operand{to, floats(inverse)};
  };
  const float* const largest = floats(in.largest);
  const std::int64_t chunk_b = sums ? in.rows : product == Product::forward ? 0 : o.b.rows;
  const Fp8Operand a = operand(o.a, largest, in.bytes_a, sums ? in.rows : 0, in.inverse_a,
                               in.scales_a, l.input<T>(0));
  const Fp8Operand b = operand(o.b, largest + o.a.count(), in.bytes_b, chunk_b, in.inverse_b,
                               in.scales_b, l.input<T>(1));

  const std::int64_t calls_of_block = RowBlocks(g, o.a.rows).rows / in.rows;
  for (std::int64_t i = 0; i < o.a.rows / in.rows; ++i) {
    const Fp8Operand rows = part_of(g, a, o.a, in.scales_a, in.rows, i);
    if (!sums) {
      T* const y = l.output<T>(0) + i * in.rows * o.result_cols;
      library.run(l.queue, y, rows, b, bias, false, scratch + in.rest);
      continue;
    }
    const bool begins = i % calls_of_block == 0, ends = (i + 1) % calls_of_block == 0;
    library.run(l.queue, in_blocks ? gradient : l.out[0], rows,
                part_of(g, b, o.b, in.scales_b, in.rows, i), nullptr,
                !begins || (!in_blocks && l.accumulate), scratch + in.rest);
    if (in_blocks && ends) add_block(l, 0, gradient, !l.accumulate && i < calls_of_block);
  }
}

#define TRIREME_FP8_BYTES(T)                                                                    \
  template void launch_fp8_bytes(const Launch&, Product, const Fp8Operands&, const Fp8Product&, \
                                 const T*, std::byte*, std::byte*)
TRIREME_FP8_BYTES(float);
TRIREME_FP8_BYTES(bf16);
TRIREME_FP8_BYTES(f16);
TRIREME_FP8_BYTES(double);
#undef TRIREME_FP8_BYTES

}  // namespace trireme::ops
