// The algorithm that a vendor's library uses for each matrix product: its own first choice, or the
// one an earlier run recorded. Libraries promise bitwise equal results only for equal algorithms,
// so a run records the list.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "backend/kernels.h"

namespace trireme {

// Types of fp8 operands a and b, and their scaling: one scale per tensor or, blockwise,
// one per 128 numbers of a row and, for a weight, per 128 x 128 block. Without a recipe
// the operands are not fp8.
struct Fp8Bytes {
  Fp8Type a = Fp8Type::e4m3, b = Fp8Type::e4m3;
  Fp8Recipe scales = Fp8Recipe::none;

  bool is_used() const { return scales != Fp8Recipe::none; }
  auto operator<=>(const Fp8Bytes&) const = default;
};

// Identifies a product to a library. The memory layout of the operands follows from the kind of
// product and from whether they are fp8 bytes.
struct ProductKey {
  Product product;
  bool bias;      // whether a bias is added
  DType compute;  // type of the operands or, if these are fp8, of the result
  std::int64_t rows, in, out;
  Fp8Bytes fp8 = {};

  LinearShape shape() const { return {rows, in, out}; }
  auto operator<=>(const ProductKey&) const = default;
};

// Names in records: "forward", "input_grad", "weight_grad".
constexpr const char* record_name(Product product) {
  return product == Product::forward      ? "forward"
         : product == Product::input_grad ? "input_grad"
                                          : "weight_grad";
}

constexpr const char* record_name(Fp8Type type) {
  return type == Fp8Type::e4m3        ? "e4m3"
         : type == Fp8Type::e5m2      ? "e5m2"
         : type == Fp8Type::e4m3_fnuz ? "e4m3_fnuz"
                                      : "e5m2_fnuz";
}
constexpr const char* record_name(Fp8Recipe scales) {
  return scales == Fp8Recipe::none         ? "none"
         : scales == Fp8Recipe::tensorwise ? "tensorwise"
                                           : "blockwise";
}

struct LibraryChoices {
  // E.g. "NVIDIA H100 80GB HBM3" and "cuBLASLt 130100"; both empty if no library is used.
  std::string device, library;
  // In the library's own notation; own_algorithm stands for the device's own kernel.
  std::map<ProductKey, std::string> algorithms;
};

inline constexpr const char* own_algorithm = "own";

}  // namespace trireme
