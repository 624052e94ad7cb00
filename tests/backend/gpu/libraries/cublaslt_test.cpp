// Tests of cuBLASLt calls: the library's own descriptors are read back, and what they specify is
// computed on the host. The library's kernels are not tested.
#include <gtest/gtest.h>

#if TRIREME_TEST_CUBLASLT
#include <dlfcn.h>

#include "backend/gpu/libraries/fp8_on_host.h"
#include "backend/gpu/libraries/host_products.h"
#include "backend/gpu/vendor/lt.h"
#include "backend/gpu_workspace.h"
#include "base/error.h"

namespace trireme::gpu::lt {
namespace {

constexpr std::uint64_t answer_mark = 0x5ca1ab1e;
char stream_place;  // its address stands for the stream

// The functions with which the substitute reads descriptors.
struct Readers {
  decltype(&cublasLtMatmulDescGetAttribute) description;
  decltype(&cublasLtMatrixLayoutGetAttribute) layout;
  decltype(&cublasLtMatmulPreferenceGetAttribute) preference;
} readers;

template <class Value>
Value attribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t which) {
  Value value{};
  std::size_t written = 0;
  EXPECT_EQ(readers.description(description, which, &value, sizeof(value), &written), 0);
  EXPECT_EQ(written, sizeof(value));
  return value;
}

template <class Value>
Value attribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which) {
  Value value{};
  std::size_t written = 0;
  EXPECT_EQ(readers.preference(preference, which, &value, sizeof(value), &written), 0);
  return value;
}

// A stored matrix as its descriptor specifies it.
struct Stored {
  explicit Stored(cublasLtMatrixLayout_t layout) {
    const auto read = [&](cublasLtMatrixLayoutAttribute_t which, auto& value) {
      std::size_t written = 0;
      EXPECT_EQ(readers.layout(layout, which, &value, sizeof(value), &written), 0);
    };
    std::int32_t order = -1, batches = -1;
    read(CUBLASLT_MATRIX_LAYOUT_TYPE, type);
    read(CUBLASLT_MATRIX_LAYOUT_ORDER, order);
    read(CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
    read(CUBLASLT_MATRIX_LAYOUT_COLS, columns);
    read(CUBLASLT_MATRIX_LAYOUT_LD, leading);
    read(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches);
    EXPECT_EQ(order, CUBLASLT_ORDER_COL);
    EXPECT_EQ(batches, 1);
    EXPECT_GE(leading, static_cast<std::int64_t>(rows));
  }
  std::int64_t index(std::uint64_t row, std::uint64_t column) const {
    EXPECT_TRUE(row < rows && column < columns);
    return static_cast<std::int64_t>(row) + static_cast<std::int64_t>(column) * leading;
  }

  std::uint32_t type = 0;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
};

template <class Body>
auto with_type(std::uint32_t type, const Body& body) {
  switch (type) {
    case CUDA_R_16BF:
      return body(bf16{});
    case CUDA_R_16F:
      return body(f16{});
    default:
      EXPECT_EQ(type, std::uint32_t{CUDA_R_32F});
      return body(float{});
  }
}

bool are_bytes(std::uint32_t type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

double load(const void* data, std::uint32_t type, std::int64_t index) {
  if (are_bytes(type)) {
    const auto* const p = static_cast<const std::uint8_t*>(data) + index;
    EXPECT_TRUE(lies_in_an_operand(p, 1));
    return from_fp8(type == CUDA_R_8F_E4M3 ? Fp8Type::e4m3 : Fp8Type::e5m2, *p);
  }
  return with_type(type, [&]<class T>(T) -> double {
    const T* const p = static_cast<const T*>(data) + index;
    if (!lies_in_an_operand(p, sizeof(T))) {
      ADD_FAILURE() << "element " << index << " lies outside of its operand";
      return NAN;
    }
    return static_cast<float>(*p);
  });
}

// Scale of an element of an 8-bit matrix, as NVIDIA documents the modes: sums run along its
// columns.
struct Scales {
  std::int32_t mode;
  const float* values;

  double of(const Stored& matrix, std::uint64_t step, std::uint64_t column) const {
    if (!are_bytes(matrix.type)) return 1;
    const std::uint64_t block = step / 128, blocks = (matrix.rows + 127) / 128;
    std::uint64_t index = 0;
    if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F) {
      index = block * matrix.columns + column;
    } else if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F) {
      index = column / 128 * ((blocks + 3) / 4 * 4) + block;
    } else {
      EXPECT_EQ(mode, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
    }
    EXPECT_TRUE(lies_in_an_operand(values + index, sizeof(float)));
    return values[index];
  }
};

void store(void* data, std::uint32_t type, std::int64_t index, double value) {
  with_type(type, [&]<class T>(T) {
    T* const p = static_cast<T*>(data) + index;
    ASSERT_TRUE(lies_in_an_operand(p, sizeof(T)));
    *p = T(static_cast<float>(value));
  });
}

cublasStatus_t create(cublasLtHandle_t* handle) {
  static char place;
  *handle = reinterpret_cast<cublasLtHandle_t>(&place);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy(cublasLtHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                         cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
                         cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                         int wanted, cublasLtMatmulHeuristicResult_t* results, int* found) {
  EXPECT_EQ(wanted, 1);
  const auto most = attribute<std::uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_LE(most, static_cast<std::uint64_t>(library_workspace));
  EXPECT_EQ(attribute<std::uint32_t>(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK),
            std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  // The alignment of columns follows from their leading dimension.
  const auto expect_aligned = [&](cublasLtMatrixLayout_t layout,
                                  cublasLtMatmulPreferenceAttributes_t which) {
    const Stored matrix(layout);
    const std::int64_t element = matrix.type == CUDA_R_32F ? 4 : are_bytes(matrix.type) ? 1 : 2;
    const std::int64_t column = matrix.leading * element;
    const auto alignment = attribute<std::uint32_t>(preference, which);
    EXPECT_LE(alignment, 64u);
    EXPECT_EQ(column % alignment, 0);
    EXPECT_TRUE(alignment == 64 || column % (2 * alignment) != 0);
  };
  for (const auto which :
       {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER}) {
    const bool scaled = attribute<const void*>(description, which) != nullptr;
    EXPECT_EQ(scaled, are_bytes(Stored(a).type));
  }
  expect_aligned(a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  expect_aligned(b, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  expect_aligned(d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  expect_aligned(d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  results[0] = {};
  results[0].algo.data[0] = answer_mark;
  results[0].algo.data[7] = most;
  results[0].workspaceSize = most;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_algorithm(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                               cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                               cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algorithm,
                               cublasLtMatmulHeuristicResult_t* result) {
  result->workspaceSize = algorithm->data[7];
  return algorithm->data[0] == answer_mark ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t multiply(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                        const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                        cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                        cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                        const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t bytes,
                        cudaStream_t stream) {
  const auto of = [&]<class Value>(Value, cublasLtMatmulDescAttributes_t which) {
    return attribute<Value>(description, which);
  };
  EXPECT_EQ(of(std::int32_t{}, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(of(std::int32_t{}, CUBLASLT_MATMUL_DESC_SCALE_TYPE), CUDA_R_32F);
  EXPECT_EQ(of(std::int32_t{}, CUBLASLT_MATMUL_DESC_POINTER_MODE), CUBLASLT_POINTER_MODE_HOST);
  EXPECT_EQ(of(std::int32_t{}, CUBLASLT_MATMUL_DESC_TRANSC), CUBLAS_OP_N);
  const bool a_transposed = of(std::int32_t{}, CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T;
  const bool b_transposed = of(std::int32_t{}, CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T;
  const auto epilogue = of(std::uint32_t{}, CUBLASLT_MATMUL_DESC_EPILOGUE);
  const auto* const bias = of(static_cast<const void*>(nullptr), CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  const auto bias_type = of(std::int32_t{}, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  const bool adds_bias = epilogue == CUBLASLT_EPILOGUE_BIAS;
  EXPECT_TRUE(adds_bias || epilogue == CUBLASLT_EPILOGUE_DEFAULT);

  EXPECT_EQ(algorithm->data[0], answer_mark);
  EXPECT_GE(bytes, algorithm->data[7]);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(workspace) % 256, 0u);
  EXPECT_TRUE(lies_in_an_operand(workspace, static_cast<std::int64_t>(bytes)));
  EXPECT_EQ(static_cast<void*>(stream), &stream_place);

  const Stored left(a_layout), right(b_layout), before(c_layout), result(d_layout);
  EXPECT_EQ(before.type, result.type);
  EXPECT_EQ(before.leading, result.leading);
  const auto scales = [&](cublasLtMatmulDescAttributes_t mode,
                          cublasLtMatmulDescAttributes_t pointer) {
    return Scales{of(std::int32_t{}, mode),
                  static_cast<const float*>(of(static_cast<const void*>(nullptr), pointer))};
  };
  const Scales left_scales =
      scales(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
  const Scales right_scales =
      scales(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
  if (are_bytes(left.type)) {  // the only layout that Ada and Hopper support
    EXPECT_TRUE(a_transposed && !b_transposed);
    EXPECT_EQ(of(std::int8_t{}, CUBLASLT_MATMUL_DESC_FAST_ACCUM), 0);
    EXPECT_FALSE(adds_bias && result.type == CUDA_R_32F);
  }
  const std::uint64_t steps = a_transposed ? left.rows : left.columns;
  EXPECT_EQ(steps, b_transposed ? right.columns : right.rows);
  EXPECT_EQ(result.rows, a_transposed ? left.columns : left.rows);
  EXPECT_EQ(result.columns, b_transposed ? right.rows : right.columns);
  const float scale = *static_cast<const float*>(alpha), kept = *static_cast<const float*>(beta);
  for (std::uint64_t i = 0; i < result.rows; ++i) {
    for (std::uint64_t j = 0; j < result.columns; ++j) {
      double sum = 0;
      for (std::uint64_t s = 0; s < steps; ++s)
        sum += load(a, left.type, a_transposed ? left.index(s, i) : left.index(i, s)) *
               left_scales.of(left, s, i) * right_scales.of(right, s, j) *
               load(b, right.type, b_transposed ? right.index(j, s) : right.index(s, j));
      sum *= scale;
      // With beta = 0 the library does not read C.
      if (kept != 0) sum += kept * load(c, before.type, before.index(i, j));
      if (adds_bias)
        sum += load(bias, static_cast<std::uint32_t>(bias_type), static_cast<std::int64_t>(i));
      store(d, result.type, result.index(i, j), sum);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

class CublasLt : public testing::Test {
 protected:
  void SetUp() override {
    void* const library = dlopen(TRIREME_CUBLASLT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) GTEST_SKIP() << "cuBLASLt cannot be loaded: " << dlerror();
    auto functions = functions_of(library);
    ASSERT_TRUE(functions);
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      ASSERT_TRUE(function) << name;
    };
    find(readers.description, "cublasLtMatmulDescGetAttribute");
    find(readers.layout, "cublasLtMatrixLayoutGetAttribute");
    find(readers.preference, "cublasLtMatmulPreferenceGetAttribute");
    functions->Create = create;
    functions->Destroy = destroy;
    functions->MatmulAlgoGetHeuristic = heuristic;
    functions->MatmulAlgoCheck = check_algorithm;
    functions->Matmul = multiply;
    library_ = make_library(
        *functions, [](Queue&) -> void* { return &stream_place; }, library_workspace);
  }

  std::unique_ptr<ProductLibrary> library_;
};

TEST_F(CublasLt, CallsSayWhatTheProductsMean) {
  expect_all_products(*library_, true);
}

// 8-bit values without NaN, and scales of about 1.
struct Bytes {
  Bytes(const Fp8Matrix& matrix, std::uint64_t seed)
      : bytes_(matrix.count(), 0), scales_(matrix.scales(), seed) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<float> normal(0, 8);
    for (std::int64_t i = 0; i < matrix.count(); ++i)
      bytes_.get()[i] = std::byte{to_fp8(matrix.type, normal(generator))};
  }
  Fp8Operand get() const {
    return {reinterpret_cast<const std::uint8_t*>(bytes_.get()), scales_.get()};
  }

 private:
  Operand<std::byte> bytes_;
  Operand<float> scales_;
};

template <class C>
void expect_bytes(ProductLibrary& library, const ProductKey& key, bool accumulate) {
  SCOPED_TRACE(testing::Message() << record_name(key.product) << " of bytes in "
                                  << record_name(key.fp8.a) << ", " << record_name(key.fp8.scales)
                                  << ", " << key.rows << " x " << key.in << " x " << key.out
                                  << ", bias " << key.bias);
  const Bytes a(fp8_matrix_a(key), 1), b(fp8_matrix_b(key), 2);
  const std::int64_t columns = fp8_matrix_b(key).rows;
  const Operand<C> bias(columns, 3), result(fp8_matrix_a(key).rows * columns, 4);
  const std::vector<double> before = result.values();
  const Operand<std::byte> workspace(library_workspace, 5);
  const auto product = library.product(key);
  ASSERT_TRUE(product && product->use(product->first_answer()));
  product->take_scales(a.get().inverse_scales, b.get().inverse_scales);
  HostQueue queue;
  product->run(queue, result.get(), a.get().bytes, b.get().bytes, key.bias ? bias.get() : nullptr,
               accumulate, workspace.get());
  const std::vector<double> sums = product_on_host(key, a.get(), b.get());
  const double tolerance = std::is_same_v<C, float> ? 1e-5 : 0x1p-7;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    double expected = sums[i];
    if (key.bias) expected += bias.at(static_cast<std::int64_t>(i) % columns);
    if (accumulate) expected += before[i];
    ASSERT_NEAR(result.at(static_cast<std::int64_t>(i)), expected,
                tolerance * std::max(100.0, std::fabs(expected)))
        << "element " << i;
  }
}

TEST_F(CublasLt, CallsSayWhatProductsOfBytesMean) {
  const auto e4m3 = Fp8Type::e4m3, e5m2 = Fp8Type::e5m2;
  // One block and several in each dimension.
  for (const LinearShape& shape :
       {LinearShape{16, 32, 48}, LinearShape{64, 16, 32}, LinearShape{256, 16, 144},
        LinearShape{16, 272, 16}, LinearShape{16, 144, 272}})
    for (const Fp8Recipe scales : {Fp8Recipe::tensorwise, Fp8Recipe::blockwise})
      for (const Fp8Type gradients : {e4m3, e5m2}) {
        const auto key = [&](Product product, bool bias, DType result) {
          const Fp8Type a = product == Product::forward ? e4m3 : gradients;
          return ProductKey{product,  bias,      result,           shape.rows,
                            shape.in, shape.out, {a, e4m3, scales}};
        };
        for (const bool bias : {false, true}) {
          expect_bytes<bf16>(*library_, key(Product::forward, bias, DType::bf16), false);
          expect_bytes<f16>(*library_, key(Product::forward, bias, DType::f16), false);
        }
        expect_bytes<float>(*library_, key(Product::forward, false, DType::f32), false);
        expect_bytes<bf16>(*library_, key(Product::input_grad, false, DType::bf16), false);
        for (const bool accumulate : {false, true})
          expect_bytes<float>(*library_, key(Product::weight_grad, false, DType::f32), accumulate);
        if (HasFatalFailure()) return;
      }
}

TEST_F(CublasLt, HasNoBytesThatItCannotMultiply) {
  const Fp8Bytes bytes{Fp8Type::e4m3, Fp8Type::e4m3, Fp8Recipe::tensorwise};
  const auto has = [&](const ProductKey& key) { return library_->product(key) != nullptr; };
  EXPECT_TRUE(has({Product::forward, true, DType::bf16, 16, 32, 48, bytes}));
  for (const LinearShape& odd :
       {LinearShape{8, 32, 48}, LinearShape{16, 40, 48}, LinearShape{16, 32, 56}})
    EXPECT_FALSE(has({Product::forward, true, DType::bf16, odd.rows, odd.in, odd.out, bytes}));
  EXPECT_FALSE(has({Product::forward, true, DType::f32, 16, 32, 48, bytes}));
  const Fp8Bytes of_amd{Fp8Type::e4m3_fnuz, Fp8Type::e4m3_fnuz, Fp8Recipe::tensorwise};
  EXPECT_FALSE(has({Product::forward, true, DType::bf16, 16, 32, 48, of_amd}));
}

TEST_F(CublasLt, NamesItsVersion) {
  EXPECT_EQ(library_->name().substr(0, 9), "cuBLASLt ");
  EXPECT_GE(std::stoi(library_->name().substr(9)), 10000);
}

TEST_F(CublasLt, AlgorithmsAreTextsThatItUnderstandsAgain) {
  const ProductKey key{Product::forward, true, DType::bf16, 16, 32, 48};
  const auto product = library_->product(key);
  const std::string answer = product->first_answer();
  EXPECT_EQ(answer, library_->product(key)->first_answer());
  EXPECT_TRUE(library_->product(key)->use(answer));
  for (std::string wrong :
       {std::string(), answer.substr(2), "zz" + answer.substr(2), std::string(answer.size(), '0')})
    EXPECT_FALSE(product->use(wrong)) << wrong;
  // An algorithm that needs more workspace than planned.
  std::string greedy = answer;
  greedy.replace(7 * 16, 8, "ffffffff");
  EXPECT_FALSE(product->use(greedy));
}

TEST_F(CublasLt, RefusesOperandsInTheMidstOfARow) {
  const auto product = library_->product({Product::forward, false, DType::bf16, 16, 32, 32});
  ASSERT_TRUE(product->use(product->first_answer()));
  const Operand<bf16> x(16 * 32 + 1, 1), weight(32 * 32, 2), y(16 * 32, 3);
  HostQueue queue;
  EXPECT_THROW(product->run(queue, y.get(), x.get() + 1, weight.get(), nullptr, false, nullptr),
               Error);
}

}  // namespace
}  // namespace trireme::gpu::lt

#else

TEST(CublasLt, CallsSayWhatTheProductsMean) {
  GTEST_SKIP() << "the build has found no cublasLt.h";
}

#endif
