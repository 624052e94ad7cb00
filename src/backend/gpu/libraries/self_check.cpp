// One small shape through both.
#include "backend/gpu/libraries/self_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/gpu_workspace.h"
#include "base/error.h"

namespace trireme::gpu {
namespace {

// Three sizes that differ, so that a wrong transpose or leading dimension shows; multiples of 16,
// as those of models are.
constexpr LinearShape shape{96, 160, 224};

// An operand in the device's memory.
class OnDevice {
 public:
  OnDevice(Device& device, std::int64_t bytes)
      : device_(device), bytes_(bytes), memory_(device.allocate(bytes)) {
    if (!memory_) fail("there is no memory on {} to compare its library with", device.name());
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { device_.release(memory_, bytes_); }

  void* get() const { return memory_; }

  // Numbers between -1 and 1 that look random and differ from operand to operand.
  template <class T>
  void draw(std::uint32_t seed) {
    device_.write(memory_, bytes_, [&](std::byte* host) {
      auto* const values = reinterpret_cast<T*>(host);
      const auto count = bytes_ / static_cast<std::int64_t>(sizeof(T));
      std::uint32_t state = seed * 2654435761u + 1;
      for (std::int64_t i = 0; i < count; ++i) {
        state = state * 1664525u + 1013904223u;
        values[i] = T(static_cast<float>(state >> 8) * 0x1p-23f - 1);
      }
    });
  }
  template <class T>
  std::vector<T> values() const {
    std::vector<T> values(static_cast<std::size_t>(bytes_) / sizeof(T));
    device_.read(memory_, bytes_, [&](const std::byte* host) {
      std::memcpy(values.data(), host, static_cast<std::size_t>(bytes_));
    });
    return values;
  }

 private:
  Device& device_;
  std::int64_t bytes_;
  std::byte* memory_;
};

// What two roundings to T may differ by, of the largest element; sums of 200 products in fp32.
template <class T>
constexpr double allowed_of() {
  if constexpr (std::is_same_v<T, bf16>) return 0x1p-7;
  if constexpr (std::is_same_v<T, f16>) return 0x1p-10;
  return 1e-5;
}

template <class C>
double difference(const std::vector<C>& tested, const std::vector<C>& trusted) {
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < trusted.size(); ++i) {
    const double is = static_cast<float>(tested[i]), should = static_cast<float>(trusted[i]);
    if (!std::isfinite(is)) return INFINITY;
    largest = std::max(largest, std::fabs(should));
    error = std::max(error, std::fabs(is - should));
  }
  return error / largest;
}

// The operands of a product; T is their storage type, C that of its result.
template <class T, class C>
class Trial {
 public:
  Trial(Device& device, Product product)
      : device_(device),
        product_(product),
        a_(device, bytes<T>(product == Product::forward ? x : y)),
        b_(device, bytes<T>(product == Product::weight_grad ? x : weight)),
        bias_(device, bytes<T>(shape.out)),
        result_(device, bytes<C>(product == Product::forward      ? y
                                 : product == Product::input_grad ? x
                                                                  : weight)),
        workspace_(device,
                   std::max<std::int64_t>(1, gpu::linear_workspace(device.target().device,
                                                                   dtype_of<T>, product, shape))) {
    a_.template draw<T>(1);
    b_.template draw<T>(2);
    bias_.template draw<T>(3);
  }

  // The largest difference, with what a layer may want: a bias, or a sum with what was there.
  double error(const MakeProduct& tested, const MakeProduct& trusted) {
    double error = difference(run(tested, false), run(trusted, false));
    error = std::max(error, difference(run(tested, true), run(trusted, true)));
    return error;
  }

 private:
  static constexpr std::int64_t x = shape.rows * shape.in, y = shape.rows * shape.out,
                                weight = shape.out * shape.in;
  template <class Element>
  static constexpr std::int64_t bytes(std::int64_t count) {
    return count * static_cast<std::int64_t>(sizeof(Element));
  }

  std::vector<C> run(const MakeProduct& make, bool more) {
    const bool adds_bias = more && product_ == Product::forward;
    result_.template draw<C>(4);
    make(dtype_of<T>, product_, shape)
        ->run(device_.queue(), result_.get(), a_.get(), b_.get(), adds_bias ? bias_.get() : nullptr,
              more && !adds_bias, workspace_.get());
    return result_.template values<C>();
  }

  Device& device_;
  Product product_;
  OnDevice a_, b_, bias_, result_, workspace_;
};

template <class T, class C>
void compare(Device& device, Product product, const MakeProduct& tested, const MakeProduct& trusted,
             std::vector<Disagreement>& found) {
  Disagreement result{product, dtype_of<T>, 0, allowed_of<C>(), ""};
  try {
    result.error = Trial<T, C>(device, product).error(tested, trusted);
  } catch (const Error& error) {
    result.failure = error.what();
  }
  if (!(result.error <= result.allowed) || !result.failure.empty()) found.push_back(result);
}

template <class T>
void compare_all(Device& device, const MakeProduct& tested, const MakeProduct& trusted,
                 std::vector<Disagreement>& found) {
  compare<T, T>(device, Product::forward, tested, trusted, found);
  compare<T, T>(device, Product::input_grad, tested, trusted, found);
  compare<T, float>(device, Product::weight_grad, tested, trusted, found);
}

}  // namespace

std::vector<Disagreement> disagreements(Device& device, const MakeProduct& tested,
                                        const MakeProduct& trusted) {
  std::vector<Disagreement> found;
  compare_all<float>(device, tested, trusted, found);
  compare_all<bf16>(device, tested, trusted, found);
  compare_all<f16>(device, tested, trusted, found);
  return found;
}

}  // namespace trireme::gpu
