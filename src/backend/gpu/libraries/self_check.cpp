// Runs one small shape through both implementations.
#include "backend/gpu/libraries/self_check.h"

#include <algorithm>

#include "backend/gpu/libraries/on_device.h"
#include "backend/gpu_workspace.h"
#include "base/error.h"

namespace trireme::gpu {
namespace {

// Three different sizes, so that a wrong transpose or leading dimension is detected; multiples of
// 16, like those of real models.
constexpr LinearShape shape{96, 160, 224};

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
        addend_(device, bytes<T>(y)),
        result_(device, bytes<C>(product == Product::forward      ? y
                                 : product == Product::input_grad ? x
                                                                  : weight)),
        workspace_(device,
                   std::max<std::int64_t>(1, gpu::linear_workspace(device.target().device,
                                                                   dtype_of<T>, product, shape))) {
    a_.template draw<T>(1);
    b_.template draw<T>(2);
    bias_.template draw<T>(3);
    addend_.template draw<T>(5);
  }

  // Largest difference over the variants used by layers: plain, with bias, with accumulation, and
  // with an addend.
  double error(const MakeProduct& tested, const MakeProduct& trusted) {
    double error = difference(run(tested, false), run(trusted, false));
    error = std::max(error, difference(run(tested, true), run(trusted, true)));
    if (product_ != Product::forward) return error;
    for (const bool adds_bias : {false, true}) {
      const std::vector<C> onto = run_onto(tested, adds_bias);
      if (!onto.empty()) error = std::max(error, difference(onto, run_onto(trusted, adds_bias)));
    }
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
  // Empty if the implementation cannot add.
  std::vector<C> run_onto(const MakeProduct& make, bool adds_bias) {
    const bool adds = make(dtype_of<T>, product_, shape)
                          ->run_onto(device_.queue(), result_.get(), addend_.get(), a_.get(),
                                     b_.get(), adds_bias ? bias_.get() : nullptr, workspace_.get());
    return adds ? result_.template values<C>() : std::vector<C>();
  }

  Device& device_;
  Product product_;
  OnDevice a_, b_, bias_, addend_, result_, workspace_;
};

template <class T, class C>
void compare(Device& device, Product product, const MakeProduct& tested, const MakeProduct& trusted,
             std::vector<Disagreement>& found) {
  Disagreement result{{product, dtype_of<T>}, 0, allowed_of<C>(), ""};
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
