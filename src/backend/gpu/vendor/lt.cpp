// cuBLASLt and hipBLASLt descriptors, algorithms and calls.
#include "backend/gpu/vendor/libraries.h"

#if TRIREME_HAS_LT
#include "backend/gpu/vendor/lt.h"

#include <dlfcn.h>

#include <cstring>
#include <type_traits>
#include <utility>

#include "backend/gpu/libraries/bytes_as_text.h"
#include "backend/gpu/libraries/column_major.h"
#include "base/error.h"

#define LT_TEXT(name) LT_TEXT_OF(LT(name))
#define LT_TEXT_OF(name) LT_QUOTED(name)
#define LT_QUOTED(name) #name
#define LT_CALL(functions, name, ...) check((functions).name(__VA_ARGS__), LT_TEXT(name))

namespace trireme::gpu::lt {
namespace {

#if TRIREME_HIP
constexpr const char* library_name = "hipBLASLt";
#else
constexpr const char* library_name = "cuBLASLt";
#endif

void check(Status status, const char* call) {
  if (status != LT_BLAS(STATUS_SUCCESS))
    fail("{} failed with status {}", call, static_cast<int>(status));
}

DataType data_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return LT_DATA(R_16BF);
    case DType::f16:
      return LT_DATA(R_16F);
    default:
      return LT_DATA(R_32F);
  }
}

// The library's fp8 data types, among those of its vendor's processors.
std::optional<DataType> byte_type(Fp8Type type) {
  switch (type) {
    case Fp8Type::e4m3:
      return LT_DATA(R_8F_E4M3);
    case Fp8Type::e5m2:
      return LT_DATA(R_8F_E5M2);
#if TRIREME_HIP
    case Fp8Type::e4m3_fnuz:
      return HIP_R_8F_E4M3_FNUZ;
    case Fp8Type::e5m2_fnuz:
      return HIP_R_8F_E5M2_FNUZ;
#endif
    default:
      return std::nullopt;
  }
}

// cuBLASLt has supported block scaling since 12.9; hipBLASLt does not.
#if !TRIREME_HIP && CUBLAS_VERSION >= 120900
constexpr bool scales_blocks = true;
#else
constexpr bool scales_blocks = false;
#endif

// Returns whether the library's API can express an fp8 product. Its heuristic decides which GPUs
// and type combinations are supported. Tensor cores need sizes that are multiples of 16.
bool has_words_for(const ProductKey& key) {
  if (!key.fp8.is_used()) return true;
  const bool fits = key.rows % 16 == 0 && key.in % 16 == 0 && key.out % 16 == 0;
  const bool known = byte_type(key.fp8.a) && byte_type(key.fp8.b);
  const bool scaled = key.fp8.scales == Fp8Recipe::tensorwise || scales_blocks;
  const bool biased = key.bias && result_type(key.product, key.compute) == DType::f32;
  return fits && known && scaled && !biased;  // with fp32 results the bias must be bf16
}

// Workspaces start at multiples of 64 bytes; what the libraries get starts at multiples of this.
constexpr std::uintptr_t workspace_alignment = 256;

// The library's handle and settings.
struct Context {
  Functions functions;
  LT(Handle_t) handle;
  StreamOf stream_of;
  std::int64_t workspace;  // usable bytes of it
};

// Owns a library descriptor and destroys it.
template <class Handle>
class Owned {
 public:
  using Destroy = Status (*)(Handle);
  template <class Function>
  explicit Owned(Function destroy) : destroy_(destroy) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle_) destroy_(handle_);
  }
  Handle* address() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
  Destroy destroy_;
};

class LtProduct final : public LibraryProduct {
 public:
  LtProduct(const Context& context, const ProductKey& key)
      : c_(context),
        key_(key),
        what_(column_major(key)),
        result_(result_type(key.product, key.compute)),
        description_(context.functions.MatmulDescDestroy),
        a_(context.functions.MatrixLayoutDestroy),
        b_(context.functions.MatrixLayoutDestroy),
        d_(context.functions.MatrixLayoutDestroy) {
    describe();
    const bool bytes = key.fp8.is_used();
    lay_out(a_, bytes ? *byte_type(key.fp8.b) : data_type(key.compute), what_.a.rows,
            what_.a.columns);
    lay_out(b_, bytes ? *byte_type(key.fp8.a) : data_type(key.compute), what_.b.rows,
            what_.b.columns);
    lay_out(d_, data_type(result_), what_.m, what_.n);
  }

  std::string first_answer() const override;
  bool use(const std::string& algorithm) override;
  bool takes(const void* dst, const void* a, const void* b) const override {
    return are_aligned(key_, dst, a, b);
  }
  void take_scales(const float* a, const float* b) const override {
    set(LT_CONSTANT(MATMUL_DESC_A_SCALE_POINTER), static_cast<const void*>(b));
    set(LT_CONSTANT(MATMUL_DESC_B_SCALE_POINTER), static_cast<const void*>(a));
  }
  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    multiply(queue, dst, accumulate ? dst : nullptr, a, b, bias, workspace);
  }
  bool run_onto(Queue& queue, void* dst, const void* addend, const void* a, const void* b,
                const void* bias, void* workspace) const override {
    multiply(queue, dst, addend, a, b, bias, workspace);
    return true;
  }

 private:
  // `addend` has the form of dst, and may be null.
  void multiply(Queue&, void* dst, const void* addend, const void* a, const void* b,
                const void* bias, void* workspace) const;
  // Sums are always in fp32, without TF32.
  void describe();
  void describe_scales();
  void lay_out(Owned<LT(MatrixLayout_t)>& matrix, DataType type, std::int64_t rows,
               std::int64_t columns) {
    LT_CALL(c_.functions, MatrixLayoutCreate, matrix.address(), type,
            static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), rows);
  }
  template <class Value>
  void set(LT(MatmulDescAttributes_t) attribute, const Value& value) const {
    LT_CALL(c_.functions, MatmulDescSetAttribute, description_.get(), attribute, &value,
            sizeof(value));
  }
  void set_preferences(LT(MatmulPreference_t) preference) const;

  const Context& c_;
  const ProductKey key_;
  const ColumnMajor what_;
  const DType result_;
  Owned<LT(MatmulDesc_t)> description_;
  Owned<LT(MatrixLayout_t)> a_, b_, d_;
  LT(MatmulAlgo_t) algorithm_ = {};
};

void LtProduct::describe() {
  LT_CALL(c_.functions, MatmulDescCreate, description_.address(), LT_BLAS(COMPUTE_32F),
          LT_DATA(R_32F));
  const auto operation = [](bool transposed) -> std::int32_t {
    return transposed ? LT_BLAS(OP_T) : LT_BLAS(OP_N);
  };
  set(LT_CONSTANT(MATMUL_DESC_TRANSA), operation(what_.a.transposed));
  set(LT_CONSTANT(MATMUL_DESC_TRANSB), operation(what_.b.transposed));
  if (key_.fp8.is_used()) describe_scales();
  // Activations and bias gradients would be further epilogues here.
  if (!key_.bias) return;
  set(LT_CONSTANT(MATMUL_DESC_EPILOGUE), static_cast<std::uint32_t>(LT_CONSTANT(EPILOGUE_BIAS)));
  set(LT_CONSTANT(MATMUL_DESC_BIAS_DATA_TYPE), static_cast<std::int32_t>(data_type(result_)));
  // Heuristics derive the alignment of the bias from its address.
  set(LT_CONSTANT(MATMUL_DESC_BIAS_POINTER),
      reinterpret_cast<const void*>(std::uintptr_t{alignment_of(0, size_of(result_))}));
}

// Accumulates in fp32, with the library's fast accumulation disabled.
void LtProduct::describe_scales() {
#if !TRIREME_HIP && CUBLAS_VERSION >= 120900
  if (key_.fp8.scales == Fp8Recipe::blockwise) {
    const auto rows = static_cast<std::int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
    const auto squares = static_cast<std::int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, key_.product == Product::weight_grad ? rows : squares);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, rows);
  }
#endif
  // Heuristics need to see that scales exist, and their alignment.
  const auto* const somewhere = reinterpret_cast<const float*>(std::uintptr_t{64});
  take_scales(somewhere, somewhere);
}

void LtProduct::set_preferences(LT(MatmulPreference_t) preference) const {
  const auto set = [&](LT(MatmulPreferenceAttributes_t) attribute, const auto& value) {
    LT_CALL(c_.functions, MatmulPreferenceSetAttribute, preference, attribute, &value,
            sizeof(value));
  };
  set(LT_CONSTANT(MATMUL_PREF_MAX_WORKSPACE_BYTES), static_cast<std::uint64_t>(c_.workspace));
#if !TRIREME_HIP
  // Split-k partial sums are added in fp32, in a separate step.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(what_.a.rows, operand_bytes(key_)));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(what_.b.rows, operand_bytes(key_)));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(what_.m, size_of(result_)));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(what_.m, size_of(result_)));
#endif
}

std::string LtProduct::first_answer() const {
  Owned<LT(MatmulPreference_t)> preference(c_.functions.MatmulPreferenceDestroy);
  LT_CALL(c_.functions, MatmulPreferenceCreate, preference.address());
  set_preferences(preference.get());
  LT(MatmulHeuristicResult_t) answer = {};
  int answers = 0;
  const Status status = c_.functions.MatmulAlgoGetHeuristic(c_.handle, description_.get(), a_.get(),
                                                            b_.get(), d_.get(), d_.get(),
                                                            preference.get(), 1, &answer, &answers);
  const bool found = status == LT_BLAS(STATUS_SUCCESS) && answers > 0 &&
                     answer.state == LT_BLAS(STATUS_SUCCESS) &&
                     answer.workspaceSize <= static_cast<std::size_t>(c_.workspace);
  return found ? bytes_as_text(&answer.algo, sizeof(answer.algo)) : "";
}

// In both libraries an algorithm can be stored as bytes and reused with the same version.
bool LtProduct::use(const std::string& algorithm) {
  LT(MatmulAlgo_t) given = {};
  if (!text_as_bytes(algorithm, &given, sizeof(given))) return false;
#if !TRIREME_HIP
  cublasLtMatmulHeuristicResult_t needs = {};
  const Status status = c_.functions.MatmulAlgoCheck(c_.handle, description_.get(), a_.get(),
                                                     b_.get(), d_.get(), d_.get(), &given, &needs);
  if (status != CUBLAS_STATUS_SUCCESS ||
      needs.workspaceSize > static_cast<std::size_t>(c_.workspace))
    return false;
#endif
  algorithm_ = given;
  return true;
}

void LtProduct::multiply(Queue& queue, void* dst, const void* addend, const void* a, const void* b,
                         const void* bias, void* workspace) const {
  TRIREME_CHECK(takes(dst, a, b) && (!addend || takes(addend, a, b)));
  if (key_.bias) set(LT_CONSTANT(MATMUL_DESC_BIAS_POINTER), bias);
  const auto begin = reinterpret_cast<std::uintptr_t>(workspace);
  const auto from = (begin + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  const float one = 1, factor = addend ? 1 : 0;
  LT_CALL(c_.functions, Matmul, c_.handle, description_.get(), &one, b, a_.get(), a, b_.get(),
          &factor, addend ? addend : dst, d_.get(), dst, d_.get(), &algorithm_,
          reinterpret_cast<void*>(from), static_cast<std::size_t>(c_.workspace),
          static_cast<Stream>(c_.stream_of(queue)));
}

class Library final : public ProductLibrary {
 public:
  Library(const Functions& functions, StreamOf stream_of, std::int64_t workspace)
      : context_{functions, nullptr, stream_of,
                 workspace - static_cast<std::int64_t>(workspace_alignment)} {
    TRIREME_CHECK(context_.workspace > 0);
    LT_CALL(functions, Create, &context_.handle);
  }
  ~Library() override { context_.functions.Destroy(context_.handle); }

  std::string name() const override {
#if TRIREME_HIP
    int version = 0;
    LT_CALL(context_.functions, GetVersion, context_.handle, &version);
#else
    const std::size_t version = context_.functions.GetVersion();
#endif
    return std::string(library_name) + " " + std::to_string(version);
  }
  std::unique_ptr<LibraryProduct> product(const ProductKey& key) override {
    if (!has_words_for(key)) return nullptr;
    return std::make_unique<LtProduct>(context_, key);
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
#define TRIREME_LT_FIND(name) find(functions.name, LT_TEXT(name));
  TRIREME_LT_FUNCTIONS(TRIREME_LT_FIND)
#undef TRIREME_LT_FIND
  return complete ? std::optional(functions) : std::nullopt;
}

std::unique_ptr<ProductLibrary> make_library(const Functions& functions, StreamOf stream_of,
                                             std::int64_t workspace) {
  return std::make_unique<Library>(functions, stream_of, workspace);
}

}  // namespace trireme::gpu::lt
#endif
