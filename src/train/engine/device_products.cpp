// Enqueues many products and waits only for the last one.
#include "train/engine/device_products.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "backend/gpu_workspace.h"
#include "base/random.h"
#include "runtime/memory.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double heating = 0.2, measured = 0.3;  // seconds
constexpr double emulated = 0.01;                // the speed of an emulated GPU means nothing
// Products rotate over this many bytes of operands, more than any cache: an H100 has 50 MiB.
constexpr std::int64_t beyond_caches = 128 << 20;
constexpr std::int64_t most_turns = 16;

// Realistic operand values: constant values would toggle few bits, which saves GPU power and makes
// products up to an eighth faster. A block of values is repeated.
MemoryBlock operand(Device& device, DType dtype, std::int64_t bytes) {
  constexpr std::int64_t most = 1 << 20;
  MemoryBlock block(device, bytes, "an operand of a timed product");
  std::int64_t there = std::min(bytes, most);
  device.write(block.data(), there, [&](std::byte* host) {
    with_compute_type(dtype, [&]<class T>(T) {
      auto* const values = reinterpret_cast<T*>(host);
      for (std::int64_t i = 0; i < there / size_of(dtype); ++i)
        values[i] = T(static_cast<float>(normal(1, 0, i)));
    });
  });
  for (; there < bytes; there *= 2)
    device.queue().copy(block.data() + there, block.data(), std::min(there, bytes - there));
  return block;
}

// Operands and result of a product.
struct Operands {
  MemoryBlock dst, a, b;
};

Operands operands(Device& device, DType compute, Product product, const LinearShape& shape) {
  const std::int64_t x = shape.rows * shape.in, w = shape.in * shape.out,
                     y = shape.rows * shape.out;
  const DType gradient = compute == DType::f64 ? DType::f64 : DType::f32;
  const auto of = [&](DType dtype, std::int64_t count) {
    return operand(device, dtype, count * size_of(dtype));
  };
  switch (product) {
    case Product::forward:
      return {of(compute, y), of(compute, x), of(compute, w)};
    case Product::input_grad:
      return {of(compute, x), of(compute, y), of(compute, w)};
    case Product::weight_grad:
      break;
  }
  return {of(gradient, w), of(compute, y), of(compute, x)};
}

}  // namespace

double product_seconds(Device& device, DType compute, Product product, const LinearShape& shape) {
  std::vector<Operands> turns;
  std::int64_t bytes = 0;
  const bool is_emulated = device.target().device == DeviceKind::emulated;
  do {
    turns.push_back(operands(device, compute, product, shape));
    bytes += turns.back().a.bytes() + turns.back().b.bytes();
  } while (!is_emulated && bytes < beyond_caches && std::ssize(turns) < most_turns);
  const std::int64_t scratch =
      gpu::linear_workspace(device.target().device, compute, product, shape);
  const MemoryBlock workspace(device, 1 + scratch, "the workspace of a timed product");
  const auto one = device.linear(compute, product, shape);
  Queue& queue = device.queue();
  std::size_t turn = 0;
  const auto seconds_of = [&](int times) {
    const auto begin = Clock::now();
    for (int i = 0; i < times; ++i) {
      const Operands& o = turns[turn++ % turns.size()];
      one->run(queue, o.dst.data(), o.a.data(), o.b.data(), nullptr, false, workspace.data());
    }
    queue.synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  // Seconds per product, from a measurement of at least this duration.
  const auto timed = [&](double enough) {
    for (int times = 1;; times *= 2) {
      const double seconds = seconds_of(times);
      if (seconds >= enough) return seconds / times;
    }
  };
  timed(is_emulated ? emulated : heating);
  return timed(is_emulated ? emulated : measured);
}

}  // namespace trireme
