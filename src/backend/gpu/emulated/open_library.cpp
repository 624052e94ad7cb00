// open_library.h on the emulated GPU: a substitute library, by the built-in kernel or for fp8 on
// the host, for tests of the handling of libraries. TRIREME_EMULATED_LIBRARY in the environment is
// its version; unset means no library.
#include "backend/gpu/libraries/open_library.h"

#include <cstdlib>

#include "backend/gpu/emulated/fault.h"
#include "backend/gpu/libraries/fp8_on_host.h"
#include "backend/gpu/product.h"
#include "backend/gpu/queue.h"
#include "backend/gpu_workspace.h"
#include "base/error.h"

namespace trireme::gpu {
namespace {

class StandInProduct final : public LibraryProduct {
 public:
  explicit StandInProduct(const ProductKey& key)
      : key_(key), own_(own_linear(key.compute, key.product, key.shape())) {}

  std::string first_answer() const override { return "first"; }
  bool use(const std::string& algorithm) override {
    return algorithm == "first" || algorithm == "second";
  }
  bool takes(const void* dst, const void* a, const void* b) const override {
    return are_aligned(key_, dst, a, b);
  }
  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    TRIREME_CHECK(takes(dst, a, b));
    queue.fill(workspace, 0xff, substitute_workspace);  // the product may use all of it
    own_->run(queue, dst, a, b, bias, accumulate, workspace);
    if (is_wrong()) own_->run(queue, dst, a, b, nullptr, true, workspace);
  }
  bool run_onto(Queue& queue, void* dst, const void* addend, const void* a, const void* b,
                const void* bias, void* workspace) const override {
    TRIREME_CHECK(takes(dst, a, b) && takes(addend, a, b));
    queue.fill(workspace, 0xff, substitute_workspace);
    return own_->run_onto(queue, dst, addend, a, b, bias, workspace);
  }

 private:
  bool is_wrong() const {
    return emulated::planted(emulated::Fault::wrong_library) && key_.compute == DType::bf16 &&
           key_.product == Product::weight_grad;
  }

  ProductKey key_;
  std::shared_ptr<const LinearProduct> own_;
};

// Product of fp8 bytes, which the emulated GPU lacks: computed on the host, in
// the order of the stream.
class StandInBytes final : public LibraryProduct {
 public:
  explicit StandInBytes(const ProductKey& key) : key_(key) {}

  std::string first_answer() const override { return "first"; }
  bool use(const std::string& algorithm) override {
    return algorithm == "first" || algorithm == "second";
  }
  bool takes(const void* dst, const void* a, const void* b) const override {
    return are_aligned(key_, dst, a, b);
  }
  void take_scales(const float* a, const float* b) const override {
    scales_a_ = a;
    scales_b_ = b;
  }
  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    TRIREME_CHECK(takes(dst, a, b));
    queue.fill(workspace, 0xff, substitute_workspace);
    const Fp8Operand left{static_cast<const std::uint8_t*>(a), scales_a_};
    const Fp8Operand right{static_cast<const std::uint8_t*>(b), scales_b_};
    const bool doubles =
        emulated::planted(emulated::Fault::wrong_library) && key_.product == Product::weight_grad;
    with_compute_type(result_type(key_.product, key_.compute), [&]<class C>(C) {
      emulated::enqueue(stream_of(queue), [=, key = key_] {
        store(key, static_cast<C*>(dst), product_on_host(key, left, right),
              static_cast<const C*>(bias), accumulate, doubles ? 2 : 1);
      });
    });
  }

 private:
  template <class C>
  static void store(const ProductKey& key, C* dst, const std::vector<double>& sums, const C* bias,
                    bool accumulate, double factor) {
    const auto columns = static_cast<std::size_t>(fp8_matrix_b(key).rows);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      float sum = static_cast<float>(factor * sums[i]);
      if (bias) sum += static_cast<float>(bias[i % columns]);
      if (accumulate) sum += static_cast<float>(dst[i]);
      dst[i] = C(sum);
    }
  }

  ProductKey key_;
  mutable const float *scales_a_ = nullptr, *scales_b_ = nullptr;
};

// Like the vendors' libraries, it supports only some fp8 products.
bool has_bytes(const ProductKey& key) {
  const bool fits = key.rows % 16 == 0 && key.in % 16 == 0 && key.out % 16 == 0;
  const bool fnuz = format_of(key.fp8.b).fnuz, sums = key.product == Product::weight_grad;
  return fits && (sums || key.compute != DType::f32) &&
         !(fnuz && key.fp8.scales == Fp8Recipe::blockwise);
}

class StandIn final : public ProductLibrary {
 public:
  explicit StandIn(std::string version) : version_(std::move(version)) {}
  std::string name() const override { return "a substitute library " + version_; }
  std::unique_ptr<LibraryProduct> product(const ProductKey& key) override {
    if (!key.fp8.is_used()) return std::make_unique<StandInProduct>(key);
    if (!has_bytes(key)) return nullptr;
    return std::make_unique<StandInBytes>(key);
  }

 private:
  std::string version_;
};

}  // namespace

OpenedLibrary open_library() {
  if (const char* const version = std::getenv("TRIREME_EMULATED_LIBRARY"))
    return {std::make_unique<StandIn>(version), "", "/emulated/libsubstitute.so"};
  // A small GPU does not report a missing library.
  if (!emulated::planted(emulated::Fault::large)) return {};
  return {nullptr, "the emulated GPU has no library: the own kernel computes matrix products", "",
          true};
}

}  // namespace trireme::gpu
