// Interface of a vendor's library of matrix products: an algorithm for each product, named by a
// text that the same version understands again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/choices.h"
#include "backend/device.h"

namespace trireme::gpu {

// A product of one shape, with a bias or without. Calls come from one thread at a time.
class LibraryProduct : public LinearProduct {
 public:
  // The algorithm that the library's heuristic names first; empty if the library cannot compute the
  // product. Equal in every process on the same device and version.
  virtual std::string first_answer() const = 0;
  // Uses an algorithm from now on, and must have been called before run(). False: the library does
  // not know it, or it does not fit.
  virtual bool use(const std::string& algorithm) = 0;
  // Whether run() can have operands at these addresses: an algorithm may want them aligned as rows
  // of the matrices are.
  virtual bool takes(const void* /*dst*/, const void* /*a*/, const void* /*b*/) const {
    return true;
  }
  // Where operands are bytes: the inverses of their scales in the next run().
  virtual void take_scales(const float* /*a*/, const float* /*b*/) const {}
};

class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;

  // With its version: "cuBLASLt 130100".
  virtual std::string name() const = 0;
  // Null if the library has no such product. The library outlives it.
  virtual std::unique_ptr<LibraryProduct> product(const ProductKey& key) = 0;
};

// The stream of a queue as the library's header types it, behind a pointer.
using StreamOf = void* (*)(Queue&);

}  // namespace trireme::gpu
