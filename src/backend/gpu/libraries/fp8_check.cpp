// Checks one small shape, whose sizes are multiples of 128.
#include "backend/gpu/libraries/fp8_check.h"

#include "backend/gpu/libraries/fp8_on_host.h"
#include "backend/gpu/libraries/on_device.h"
#include "backend/gpu_workspace.h"

namespace trireme::gpu {
namespace {

constexpr LinearShape of_blocks{256, 128, 384};

// Tensor cores keep fewer bits of an fp8 sum than fp32: 14 on Hopper (DeepSeek-AI 2024, arXiv
// 2412.19437), until it is added to a sum in fp32.
template <class C>
double allowed_of_bytes() {
  return std::max(allowed_of<C>(), 0x1p-9);
}

float drawn(std::uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return static_cast<float>(state >> 8) * 0x1p-23f - 1;
}

// An operand in host memory and in device memory.
struct BytesOnBoth {
  std::vector<std::uint8_t> bytes;
  std::vector<float> scales;
  OnDevice bytes_there, scales_there;

  BytesOnBoth(Device& device, const Fp8Matrix& matrix, std::uint32_t seed)
      : bytes_there(device, matrix.count()),
        scales_there(device, matrix.scales() * static_cast<std::int64_t>(sizeof(float))) {
    std::uint32_t state = seed * 2654435761u + 1;
    for (std::int64_t i = 0; i < matrix.count(); ++i)
      bytes.push_back(to_fp8(matrix.type, 16 * drawn(state)));
    for (std::int64_t i = 0; i < matrix.scales(); ++i) scales.push_back(1.5f + drawn(state));
    bytes_there.write<std::uint8_t>(
        [&](std::uint8_t* to, std::int64_t) { std::copy(bytes.begin(), bytes.end(), to); });
    scales_there.write<float>(
        [&](float* to, std::int64_t) { std::copy(scales.begin(), scales.end(), to); });
  }

  Fp8Operand here() const { return {bytes.data(), scales.data()}; }
  Fp8Operand there() const {
    return {static_cast<const std::uint8_t*>(bytes_there.get()),
            static_cast<const float*>(scales_there.get())};
  }
};

// The operands of a product and the expected result.
class Fp8Trial {
 public:
  Fp8Trial(Device& device, Product product, const Fp8Bytes& bytes)
      : device_(device),
        key_{product, false, DType::f32, of_blocks.rows, of_blocks.in, of_blocks.out, bytes},
        a_(device, fp8_matrix_a(key_), 1),
        b_(device, fp8_matrix_b(key_), 2),
        sums_(product_on_host(key_, a_.here(), b_.here())),
        workspace_(device,
                   gpu::linear_workspace(device.target().device, DType::f32, product, of_blocks)) {}

  // C is the type of the result and of the bias.
  template <class C>
  double error(const Fp8Product& tested) {
    const bool adds_bias = tested.computes(true) && key_.product == Product::forward;
    double error = 0;
    if (tested.computes(false)) {
      error = error_of<C>(tested, false, false);
      if (key_.product != Product::forward)
        error = std::max(error, error_of<C>(tested, false, true));
    }
    if (adds_bias) error = std::max(error, error_of<C>(tested, true, false));
    return error;
  }

 private:
  template <class C>
  double error_of(const Fp8Product& tested, bool adds_bias, bool accumulate) {
    const auto columns = static_cast<std::size_t>(fp8_matrix_b(key_).rows);
    constexpr auto element = static_cast<std::int64_t>(sizeof(C));
    OnDevice bias(device_, static_cast<std::int64_t>(columns) * element);
    OnDevice result(device_, static_cast<std::int64_t>(sums_.size()) * element);
    // As large as the sums, so that a missing bias or summand is detected.
    const auto fill = [](std::uint32_t seed) {
      return [seed](C* to, std::int64_t count) {
        std::uint32_t state = seed;
        for (std::int64_t i = 0; i < count; ++i) to[i] = C(1024 * drawn(state));
      };
    };
    bias.template write<C>(fill(3));
    result.template write<C>(fill(4));
    const std::vector<C> shift = bias.template values<C>(), before = result.template values<C>();
    tested.run(device_.queue(), result.get(), a_.there(), b_.there(),
               adds_bias ? bias.get() : nullptr, accumulate, workspace_.get());
    std::vector<float> expected;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      double sum = sums_[i];
      if (adds_bias) sum += static_cast<float>(shift[i % columns]);
      if (accumulate) sum += static_cast<float>(before[i]);
      expected.push_back(static_cast<float>(sum));
    }
    std::vector<float> is;
    for (const C value : result.template values<C>()) is.push_back(static_cast<float>(value));
    return difference(is, expected);
  }

  Device& device_;
  ProductKey key_;
  BytesOnBoth a_, b_;
  std::vector<double> sums_;
  OnDevice workspace_;
};

// All result types with one set of operands, which are created on demand.
class Comparison {
 public:
  Comparison(Device& device, const MakeFp8Product& tested, std::vector<Disagreement>& found)
      : device_(device), tested_(tested), found_(found) {}

  template <class C>
  void compare(Product product, const Fp8Bytes& bytes, std::unique_ptr<Fp8Trial>& trial) {
    Disagreement result{{product, dtype_of<C>, bytes}, 0, allowed_of_bytes<C>(), ""};
    try {
      const auto made = tested_(result.of, of_blocks);
      if (!made || !(made->computes(false) || made->computes(true))) return;
      if (!trial) trial = std::make_unique<Fp8Trial>(device_, product, bytes);
      result.error = trial->error<C>(*made);
    } catch (const Error& error) {
      result.failure = error.what();
    }
    if (!(result.error <= result.allowed) || !result.failure.empty()) found_.push_back(result);
  }
  void compare_all(Product product, const Fp8Bytes& bytes) {
    std::unique_ptr<Fp8Trial> trial;
    compare<float>(product, bytes, trial);
    if (product == Product::weight_grad) return;
    compare<bf16>(product, bytes, trial);
    compare<f16>(product, bytes, trial);
  }

 private:
  Device& device_;
  const MakeFp8Product& tested_;
  std::vector<Disagreement>& found_;
};

}  // namespace

std::vector<Disagreement> fp8_disagreements(Device& device, const MakeFp8Product& tested) {
  std::vector<Disagreement> found;
  Comparison comparison(device, tested, found);
  for (const bool fnuz : {false, true}) {
    const Fp8Type e4m3 = fnuz ? Fp8Type::e4m3_fnuz : Fp8Type::e4m3;
    const Fp8Type e5m2 = fnuz ? Fp8Type::e5m2_fnuz : Fp8Type::e5m2;
    for (const Fp8Recipe scales : {Fp8Recipe::tensorwise, Fp8Recipe::blockwise}) {
      comparison.compare_all(Product::forward, {e4m3, e4m3, scales});
      for (const Fp8Type gradients : {e4m3, e5m2}) {
        comparison.compare_all(Product::input_grad, {gradients, e4m3, scales});
        comparison.compare_all(Product::weight_grad, {gradients, e4m3, scales});
      }
    }
  }
  return found;
}

}  // namespace trireme::gpu
