// Selects the implementation of each linear-layer product: a vendor's library with a recorded
// algorithm, or the built-in kernel.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/gpu/libraries/library.h"

namespace trireme::gpu {

// Creates linear-layer products, by the built-in kernel or by a library.
using MakeProduct =
    std::function<std::shared_ptr<const LinearProduct>(DType compute, Product, const LinearShape&)>;

// All shapes of a product; checks pass or fail for a whole class.
struct ProductClass {
  Product product;
  DType compute;
  Fp8Bytes fp8 = {};

  auto operator<=>(const ProductClass&) const = default;
};
// "forward in bf16", "weight_grad of bytes in e4m3 and e5m2 (blockwise) in f32"
std::string name_of(const ProductClass&);

// Not thread-safe.
class Products {
 public:
  // Without a library the built-in kernel computes everything. `device` is the GPU model.
  Products(std::string device, MakeProduct own, std::unique_ptr<ProductLibrary> library);
  ~Products();

  std::shared_ptr<const LinearProduct> linear(DType compute, Product, const LinearShape&);
  // Returns null without a library.
  std::shared_ptr<const Fp8Product> fp8_linear(DType compute, Product, const LinearShape&,
                                               const Fp8Bytes&);

  // See Device::choices() and take(). take() also updates existing products.
  LibraryChoices choices() const;
  void take(const LibraryChoices&);

  // Checks the library before any other product is created: against the built-in kernel
  // on `device`, with one small shape per product and storage type, and for fp8 against
  // sums on the host. Classes that disagree use the built-in kernel from then on. Returns
  // one line for each of them.
  std::vector<std::string> check(Device& device);

  // "cuBLASLt 130100", plus what check() disabled; "own products" without a library.
  std::string signature() const;

 private:
  class Chosen;
  class Linear;
  class Fp8Linear;

  std::shared_ptr<Chosen> chosen(const ProductKey& key,
                                 const std::shared_ptr<const LinearProduct>& own);

  const std::string device_;
  const MakeProduct own_;
  const std::unique_ptr<ProductLibrary> library_;
  std::set<ProductClass> off_;
  std::map<ProductKey, std::shared_ptr<Chosen>> chosen_;
  LibraryChoices taken_;
};

}  // namespace trireme::gpu
