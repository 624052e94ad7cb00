// The algorithm of a vendor's library for each matrix product: its own first answer, or that of an
// earlier run's record. Libraries promise equal bits only for an equal algorithm, so a run keeps
// the list.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "backend/kernels.h"

namespace trireme {

// Operands that are bytes in fp8: the types of a and b, and whether each has one scale or, with
// `blockwise`, one for every 128 numbers of a row and, where it is a weight, of a column. Without a
// recipe they are no bytes.
struct Fp8Bytes {
  Fp8Type a = Fp8Type::e4m3, b = Fp8Type::e4m3;
  Fp8Recipe scales = Fp8Recipe::none;

  bool is_used() const { return scales != Fp8Recipe::none; }
  auto operator<=>(const Fp8Bytes&) const = default;
};

// A product as a library knows it. The order of its operands in memory follows from the product,
// and from whether they are bytes.
struct ProductKey {
  Product product;
  bool bias;      // whether it adds one
  DType compute;  // of the operands or, where they are bytes, of the result
  std::int64_t rows, in, out;
  Fp8Bytes fp8 = {};

  LinearShape shape() const { return {rows, in, out}; }
  auto operator<=>(const ProductKey&) const = default;
};

// "forward", "input_grad", "weight_grad", as in records.
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
  // "NVIDIA H100 80GB HBM3" and "cuBLASLt 130100"; both empty where no library computes.
  std::string device, library;
  // In the library's own notation; own_algorithm: by the device's own kernel.
  std::map<ProductKey, std::string> algorithms;
};

inline constexpr const char* own_algorithm = "own";

}  // namespace trireme
