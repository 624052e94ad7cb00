// Which algorithm a vendor's library of matrix products uses for each product: its own first
// answer, or what an earlier run has written down. Libraries promise equal bits for an equal
// algorithm alone, so a run keeps the list.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "backend/kernels.h"

namespace trireme {

// A product as a library knows it. The order of its operands in memory follows from the product.
struct ProductKey {
  Product product;
  bool bias;      // whether it adds one
  DType compute;  // of the operands
  std::int64_t rows, in, out;

  LinearShape shape() const { return {rows, in, out}; }
  auto operator<=>(const ProductKey&) const = default;
};

// "forward", "input_grad", "weight_grad", as in records.
constexpr const char* record_name(Product product) {
  return product == Product::forward      ? "forward"
         : product == Product::input_grad ? "input_grad"
                                          : "weight_grad";
}

struct LibraryChoices {
  // "NVIDIA H100 80GB HBM3" and "cuBLASLt 130100"; both empty where no library computes.
  std::string device, library;
  // In the library's own notation; own_algorithm: by the device's own kernel.
  std::map<ProductKey, std::string> algorithms;
};

inline constexpr const char* own_algorithm = "own";

}  // namespace trireme
