// The table of element types.
#include "formats/torch/element_type.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::array<TorchType, 23> torch_types{{
    {"U8", "ByteStorage", "uint8", 1, DType::u8},
    {"F32", "FloatStorage", "float32", 4, DType::f32},
    {"BF16", "BFloat16Storage", "bfloat16", 2, DType::bf16},
    {"F16", "HalfStorage", "float16", 2, DType::f16},
    {"F64", "DoubleStorage", "float64", 8, DType::f64},
    {"I64", "LongStorage", "int64", 8, DType::i64},
    {"I32", "IntStorage", "int32", 4, DType::i32},
    {"I16", "ShortStorage", "int16", 2, std::nullopt},
    {"I8", "CharStorage", "int8", 1, std::nullopt},
    {"BOOL", "BoolStorage", "bool", 1, std::nullopt},
    {"C64", "ComplexFloatStorage", "complex64", 8, std::nullopt},
    {"C128", "ComplexDoubleStorage", "complex128", 16, std::nullopt},
    {"U16", "", "uint16", 2, DType::u16},
    {"U32", "", "uint32", 4, std::nullopt},
    {"U64", "", "uint64", 8, std::nullopt},
    {"F8_E4M3", "", "float8_e4m3fn", 1, std::nullopt},
    {"F8_E5M2", "", "float8_e5m2", 1, std::nullopt},
    {"F8_E4M3FNUZ", "", "float8_e4m3fnuz", 1, std::nullopt},
    {"F8_E5M2FNUZ", "", "float8_e5m2fnuz", 1, std::nullopt},
    {"F8_E8M0", "", "float8_e8m0fnu", 1, std::nullopt},
    // Aliases of types above.
    {"F32", "", "float", 4, DType::f32},
    {"F16", "", "half", 2, DType::f16},
    {"F64", "", "double", 8, DType::f64},
}};

const TorchType* find_type_by(std::string_view TorchType::*key, std::string_view name) {
  const auto at = std::ranges::find(torch_types, name, key);
  return name.empty() || at == torch_types.end() ? nullptr : &*at;
}

}  // namespace

const TorchType* find_torch_storage(std::string_view name) {
  return find_type_by(&TorchType::storage, name);
}

const TorchType* find_torch_dtype(std::string_view name) {
  return find_type_by(&TorchType::dtype, name);
}

const TorchType& torch_bytes() {
  return torch_types[0];
}

const TorchType& torch_type(DType dtype) {
  const auto at = std::ranges::find(torch_types, std::optional(dtype), &TorchType::ours);
  TRIREME_CHECK(at != torch_types.end());
  return *at;
}

}  // namespace trireme
