// Tests of rocBLAS calls: a substitute computes on the host what their arguments specify.
#include <gtest/gtest.h>

#if TRIREME_TEST_ROCBLAS
#include <cmath>

#include "backend/gpu/libraries/host_products.h"
#include "backend/gpu/vendor/rocblas.h"
#include "backend/gpu_workspace.h"

namespace trireme::gpu::rocblas {
namespace {

// The settings of the handle.
struct Handle {
  hipStream_t stream = nullptr;
  rocblas_atomics_mode atomics = rocblas_atomics_allowed;
  std::size_t workspace = 0;
} handle_place;
char stream_place;  // its address stands for the stream

template <class Body>
auto with_type(rocblas_datatype type, const Body& body) {
  switch (type) {
    case rocblas_datatype_bf16_r:
      return body(bf16{});
    case rocblas_datatype_f16_r:
      return body(f16{});
    default:
      EXPECT_EQ(type, rocblas_datatype_f32_r);
      return body(float{});
  }
}

double load(const void* data, rocblas_datatype type, std::int64_t index) {
  return with_type(type, [&]<class T>(T) -> double {
    const T* const p = static_cast<const T*>(data) + index;
    if (!lies_in_an_operand(p, sizeof(T))) {
      ADD_FAILURE() << "element " << index << " lies outside of its operand";
      return NAN;
    }
    return static_cast<float>(*p);
  });
}

void store(void* data, rocblas_datatype type, std::int64_t index, double value) {
  with_type(type, [&]<class T>(T) {
    T* const p = static_cast<T*>(data) + index;
    ASSERT_TRUE(lies_in_an_operand(p, sizeof(T)));
    *p = T(static_cast<float>(value));
  });
}

rocblas_status create(rocblas_handle* handle) {
  handle_place = {};
  *handle = reinterpret_cast<rocblas_handle>(&handle_place);
  return rocblas_status_success;
}
rocblas_status destroy(rocblas_handle) {
  return rocblas_status_success;
}
rocblas_status version(char* text, std::size_t size) {
  std::snprintf(text, size, "2.47.0");
  return rocblas_status_success;
}
rocblas_status set_atomics(rocblas_handle, rocblas_atomics_mode mode) {
  handle_place.atomics = mode;
  return rocblas_status_success;
}
rocblas_status set_stream(rocblas_handle, hipStream_t stream) {
  handle_place.stream = stream;
  return rocblas_status_success;
}
rocblas_status set_workspace(rocblas_handle, void* memory, std::size_t bytes) {
  EXPECT_TRUE(lies_in_an_operand(memory, static_cast<std::int64_t>(bytes)));
  handle_place.workspace = bytes;
  return rocblas_status_success;
}

// Column-major, as in rocBLAS's documentation of gemm_ex.
rocblas_status multiply(rocblas_handle, rocblas_operation a_operation,
                        rocblas_operation b_operation, rocblas_int m, rocblas_int n, rocblas_int k,
                        const void* alpha, const void* a, rocblas_datatype a_type, rocblas_int lda,
                        const void* b, rocblas_datatype b_type, rocblas_int ldb, const void* beta,
                        const void* c, rocblas_datatype c_type, rocblas_int ldc, void* d,
                        rocblas_datatype d_type, rocblas_int ldd, rocblas_datatype compute,
                        rocblas_gemm_algo algorithm, std::int32_t solution, std::uint32_t flags) {
  EXPECT_EQ(handle_place.atomics, rocblas_atomics_not_allowed);
  EXPECT_EQ(static_cast<void*>(handle_place.stream), &stream_place);
  EXPECT_EQ(handle_place.workspace, static_cast<std::size_t>(library_workspace));
  EXPECT_EQ(compute, rocblas_datatype_f32_r);
  EXPECT_EQ(algorithm, rocblas_gemm_algo_standard);
  EXPECT_EQ(solution, 0);
  EXPECT_EQ(flags, std::uint32_t{rocblas_gemm_flags_none});
  EXPECT_EQ(c_type, d_type);
  const bool a_transposed = a_operation == rocblas_operation_transpose;
  const bool b_transposed = b_operation == rocblas_operation_transpose;
  // Arguments that the library itself rejects.
  if (lda < (a_transposed ? k : m) || ldb < (b_transposed ? n : k) || ldc < m || ldd < m)
    return rocblas_status_invalid_size;
  const float scale = *static_cast<const float*>(alpha), kept = *static_cast<const float*>(beta);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t s = 0; s < k; ++s)
        sum += load(a, a_type, a_transposed ? s + i * lda : i + s * lda) *
               load(b, b_type, b_transposed ? j + s * ldb : s + j * ldb);
      sum *= scale;
      if (kept != 0) sum += kept * load(c, c_type, i + j * ldc);
      store(d, d_type, i + j * ldd, sum);
    }
  }
  return rocblas_status_success;
}

TEST(RocBlas, CallsSayWhatTheProductsMean) {
  const auto library = make_library(
      {.create_handle = create,
       .destroy_handle = destroy,
       .get_version_string = version,
       .set_atomics_mode = set_atomics,
       .set_stream = set_stream,
       .set_workspace = set_workspace,
       .gemm_ex = multiply},
      [](Queue&) -> void* { return &stream_place; }, library_workspace);
  EXPECT_EQ(library->name(), "rocBLAS 2.47.0");
  expect_all_products(*library, false);
}

TEST(RocBlas, HasNoProductsOfMoreRowsThanItCanCount) {
  const auto library = make_library(
      {.create_handle = create,
       .destroy_handle = destroy,
       .get_version_string = version,
       .set_atomics_mode = set_atomics,
       .set_stream = set_stream,
       .set_workspace = set_workspace,
       .gemm_ex = multiply},
      [](Queue&) -> void* { return nullptr; }, library_workspace);
  const std::int64_t many = std::int64_t{1} << 31;
  EXPECT_FALSE(library->product({Product::forward, false, DType::bf16, many, 8, 8}));
}

}  // namespace
}  // namespace trireme::gpu::rocblas

#else

TEST(RocBlas, CallsSayWhatTheProductsMean) {
  GTEST_SKIP() << "the build has found no rocblas/rocblas.h";
}

#endif
