// Enqueues many products and waits for the last.
#include "train/device_products.h"

#include <chrono>

#include "backend/gpu_workspace.h"
#include "runtime/memory.h"

namespace trireme {
namespace {

// Small numbers that are not zero: zeros would save a GPU power.
MemoryBlock operand(Device& device, std::int64_t bytes) {
  constexpr std::uint8_t small = 0x2c;  // in every byte: 0.07 as fp16, 2.4e-12 as bf16 and fp32
  MemoryBlock block(device, bytes, "an operand of a timed product");
  device.queue().fill(block.data(), small, bytes);
  return block;
}

}  // namespace

double product_seconds(Device& device, DType compute, Product product, const LinearShape& shape) {
  using Clock = std::chrono::steady_clock;
  constexpr double enough = 0.1;
  const std::int64_t x = shape.rows * shape.in, w = shape.in * shape.out,
                     y = shape.rows * shape.out;
  const auto bytes = [&](std::int64_t count) { return count * size_of(compute); };
  const std::int64_t gradient_bytes = compute == DType::f64 ? 8 : 4;
  const bool to_weight = product == Product::weight_grad;
  const MemoryBlock dst = operand(device, to_weight                     ? w * gradient_bytes
                                          : product == Product::forward ? bytes(y)
                                                                        : bytes(x)),
                    a = operand(device, bytes(product == Product::forward ? x : y)),
                    b = operand(device, bytes(to_weight ? x : w)),
                    workspace = operand(device, 1 + gpu::linear_workspace(device.target().device,
                                                                          compute, product, shape));
  const auto one = device.linear(compute, product, shape);
  Queue& queue = device.queue();
  const auto seconds_of = [&](int times) {
    const auto begin = Clock::now();
    for (int i = 0; i < times; ++i)
      one->run(queue, dst.data(), a.data(), b.data(), nullptr, false, workspace.data());
    queue.synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  seconds_of(1);
  for (int times = 1;; times *= 2) {
    const double seconds = seconds_of(times);
    if (seconds >= enough) return seconds / times;
  }
}

}  // namespace trireme
