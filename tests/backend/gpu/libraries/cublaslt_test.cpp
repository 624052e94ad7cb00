// Calls of cuBLASLt: the library's own descriptors are read back, and what they say is computed on
// the host. Nothing of the library's kernels is tested.
#include <gtest/gtest.h>

#if TRIREME_TEST_CUBLASLT
#include <dlfcn.h>

#include "backend/gpu/libraries/host_products.h"
#include "backend/gpu/vendor/lt.h"
#include "backend/gpu_workspace.h"
#include "base/error.h"

namespace trireme::gpu::lt {
namespace {

constexpr std::uint64_t answer_mark = 0x5ca1ab1e;
char stream_place;  // its address is the stream

// What the stand-in reads descriptors with.
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

// A stored matrix as its descriptor describes it.
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

double load(const void* data, std::uint32_t type, std::int64_t index) {
  return with_type(type, [&]<class T>(T) -> double {
    const T* const p = static_cast<const T*>(data) + index;
    if (!lies_in_an_operand(p, sizeof(T))) {
      ADD_FAILURE() << "element " << index << " lies outside of its operand";
      return NAN;
    }
    return static_cast<float>(*p);
  });
}

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

cublasStatus_t heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                         cublasLtMatmulPreference_t preference, int wanted,
                         cublasLtMatmulHeuristicResult_t* results, int* found) {
  EXPECT_EQ(wanted, 1);
  const auto most = attribute<std::uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_LE(most, static_cast<std::uint64_t>(library_workspace));
  EXPECT_EQ(attribute<std::uint32_t>(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK),
            std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  // Columns begin where their leading dimension lets them.
  const auto expect_aligned = [&](cublasLtMatrixLayout_t layout,
                                  cublasLtMatmulPreferenceAttributes_t which) {
    const Stored matrix(layout);
    const std::int64_t column = matrix.leading * (matrix.type == CUDA_R_32F ? 4 : 2);
    const auto alignment = attribute<std::uint32_t>(preference, which);
    EXPECT_LE(alignment, 64u);
    EXPECT_EQ(column % alignment, 0);
    EXPECT_TRUE(alignment == 64 || column % (2 * alignment) != 0);
  };
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
  EXPECT_EQ(c, d);

  const Stored left(a_layout), right(b_layout), before(c_layout), result(d_layout);
  EXPECT_EQ(before.type, result.type);
  EXPECT_EQ(before.leading, result.leading);
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
               load(b, right.type, b_transposed ? right.index(j, s) : right.index(s, j));
      sum *= scale;
      // With beta 0 the library does not read C.
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
  // One that wants more workspace than is planned.
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
