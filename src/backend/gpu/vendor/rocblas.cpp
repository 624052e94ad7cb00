// Calls rocBLAS, which needs one function only.
#include "backend/gpu/vendor/libraries.h"

#if TRIREME_HAS_ROCBLAS
#include "backend/gpu/vendor/rocblas.h"

#include <dlfcn.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backend/gpu/libraries/column_major.h"
#include "base/error.h"

#define ROCBLAS_CALL(functions, name, ...) check((functions).name(__VA_ARGS__), "rocblas_" #name)

namespace trireme::gpu::rocblas {
namespace {

void check(rocblas_status status, const char* call) {
  // perf_degraded: a faster kernel would need more workspace than planned.
  if (status == rocblas_status_success || status == rocblas_status_perf_degraded) return;
  fail("{} failed with status {}", call, static_cast<int>(status));
}

rocblas_datatype data_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return rocblas_datatype_bf16_r;
    case DType::f16:
      return rocblas_datatype_f16_r;
    default:
      return rocblas_datatype_f32_r;
  }
}

// The library's handle and settings.
struct Context {
  Functions functions;
  rocblas_handle handle;
  StreamOf stream_of;
  std::int64_t workspace;
};

// rocBLAS selects kernels itself, the same for equal sizes; records say "standard".
constexpr const char* standard = "standard";

class RocblasProduct final : public LibraryProduct {
 public:
  RocblasProduct(const Context& context, const ProductKey& key)
      : c_(context),
        key_(key),
        what_(column_major(key)),
        result_(result_type(key.product, key.compute)) {}

  std::string first_answer() const override { return standard; }
  bool use(const std::string& algorithm) override { return algorithm == standard; }
  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    TRIREME_CHECK(!(key_.bias && accumulate));  // the destination can hold only one of them
    if (key_.bias) fill_with_bias(queue, static_cast<std::byte*>(dst), bias);
    multiply(queue, dst, accumulate || key_.bias ? dst : nullptr, a, b, workspace);
  }
  bool run_onto(Queue& queue, void* dst, const void* addend, const void* a, const void* b,
                const void*, void* workspace) const override {
    if (key_.bias) return false;
    multiply(queue, dst, addend, a, b, workspace);
    return true;
  }

 private:
  // `addend` has the form of dst, and may be null.
  void multiply(Queue&, void* dst, const void* addend, const void* a, const void* b,
                void* workspace) const;
  void fill_with_bias(Queue&, std::byte* dst, const void* bias) const;

  const Context& c_;
  const ProductKey key_;
  const ColumnMajor what_;
  const DType result_;
};

// rocBLAS has no bias epilogue: the product accumulates onto rows filled with the bias. Each copy
// doubles the number of filled rows.
void RocblasProduct::fill_with_bias(Queue& queue, std::byte* dst, const void* bias) const {
  const std::int64_t row = what_.m * size_of(result_);
  queue.copy(dst, bias, row);
  for (std::int64_t there = 1; there < what_.n; there *= 2)
    queue.copy(dst + there * row, dst, std::min(there, what_.n - there) * row);
}

void RocblasProduct::multiply(Queue& queue, void* dst, const void* addend, const void* a,
                              const void* b, void* workspace) const {
  const auto size = [](std::int64_t count) { return static_cast<rocblas_int>(count); };
  const auto operation = [](bool transposed) {
    return transposed ? rocblas_operation_transpose : rocblas_operation_none;
  };
  const float one = 1, factor = addend ? 1 : 0;
  const rocblas_datatype type = data_type(key_.compute), result = data_type(result_);
  ROCBLAS_CALL(c_.functions, set_stream, c_.handle, static_cast<hipStream_t>(c_.stream_of(queue)));
  ROCBLAS_CALL(c_.functions, set_workspace, c_.handle, workspace,
               static_cast<std::size_t>(c_.workspace));
  ROCBLAS_CALL(c_.functions, gemm_ex, c_.handle, operation(what_.a.transposed),
               operation(what_.b.transposed), size(what_.m), size(what_.n), size(what_.k), &one, b,
               type, size(what_.a.rows), a, type, size(what_.b.rows), &factor,
               addend ? addend : dst, result, size(what_.m), dst, result, size(what_.m),
               rocblas_datatype_f32_r, rocblas_gemm_algo_standard, 0, rocblas_gemm_flags_none);
}

class Library final : public ProductLibrary {
 public:
  Library(const Functions& functions, StreamOf stream_of, std::int64_t workspace)
      : context_{functions, nullptr, stream_of, workspace} {
    ROCBLAS_CALL(functions, create_handle, &context_.handle);
    // Disables atomics, whose summation order varies between calls; they are enabled by default.
    ROCBLAS_CALL(functions, set_atomics_mode, context_.handle, rocblas_atomics_not_allowed);
  }
  ~Library() override { context_.functions.destroy_handle(context_.handle); }

  std::string name() const override {
    char version[128] = {};
    ROCBLAS_CALL(context_.functions, get_version_string, version, sizeof(version) - 1);
    return std::string("rocBLAS ") + version;
  }
  std::unique_ptr<LibraryProduct> product(const ProductKey& key) override {
    const std::int64_t largest = std::max({key.rows, key.in, key.out});
    if (key.fp8.is_used()) return nullptr;
    if (largest > std::numeric_limits<rocblas_int>::max()) return nullptr;
    return std::make_unique<RocblasProduct>(context_, key);
  }

 private:
  Context context_;
};

}  // namespace

std::optional<Functions> functions_of(void* library) {
  Functions functions{};
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    complete = complete && function;
  };
#define TRIREME_ROCBLAS_FIND(name) find(functions.name, "rocblas_" #name);
  TRIREME_ROCBLAS_FUNCTIONS(TRIREME_ROCBLAS_FIND)
#undef TRIREME_ROCBLAS_FIND
  return complete ? std::optional(functions) : std::nullopt;
}

std::unique_ptr<ProductLibrary> make_library(const Functions& functions, StreamOf stream_of,
                                             std::int64_t workspace) {
  return std::make_unique<Library>(functions, stream_of, workspace);
}

}  // namespace trireme::gpu::rocblas
#endif
