// Interface of a vendor's GEMM library: one algorithm per product, identified by a text that the
// same library version can parse.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/choices.h"
#include "backend/device.h"

namespace trireme::gpu {

// A product of one shape, with or without a bias. Not thread-safe.
class LibraryProduct : public LinearProduct {
 public:
  // The first algorithm of the library's heuristic; empty if the library cannot compute the
  // product. The same in every process with the same device and version.
  virtual std::string first_answer() const = 0;
  // Selects an algorithm; required before run(). Returns false if the library does not
  // know it or it does not fit.
  virtual bool use(const std::string& algorithm) = 0;
  // Returns whether run() accepts operands at these addresses: an algorithm may require the
  // alignment of the matrix rows.
  virtual bool takes(const void* /*dst*/, const void* /*a*/, const void* /*b*/) const {
    return true;
  }
  // For fp8 operands: the inverse scales of the next run().
  virtual void take_scales(const float* /*a*/, const float* /*b*/) const {}
};

class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;

  // Name with version: "cuBLASLt 130100".
  virtual std::string name() const = 0;
  // Returns null if the library has no such product. The library must outlive the product.
  virtual std::unique_ptr<LibraryProduct> product(const ProductKey& key) = 0;
};

// Returns the queue's stream in the library's type, as an opaque pointer.
using StreamOf = void* (*)(Queue&);

}  // namespace trireme::gpu
