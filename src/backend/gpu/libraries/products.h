// Selects the implementation of each product of linear layers: a vendor's library with an algorithm
// that is kept, or the own kernel.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/gpu/libraries/library.h"

namespace trireme::gpu {

// Makes products of linear layers: the own kernel's, or a library's.
using MakeProduct =
    std::function<std::shared_ptr<const LinearProduct>(DType compute, Product, const LinearShape&)>;

// What is right or wrong together: all shapes of a product.
struct ProductClass {
  Product product;
  DType compute;
  Fp8Bytes fp8 = {};

  auto operator<=>(const ProductClass&) const = default;
};
// "forward in bf16", "weight_grad of bytes in e4m3 and e5m2 (blockwise) in f32"
std::string name_of(const ProductClass&);

// Calls come from one thread at a time.
class Products {
 public:
  // Without a library everything is the own kernel's. `device`: its model.
  Products(std::string device, MakeProduct own, std::unique_ptr<ProductLibrary> library);
  ~Products();

  std::shared_ptr<const LinearProduct> linear(DType compute, Product, const LinearShape&);
  // Null without a library.
  std::shared_ptr<const Fp8Product> fp8_linear(DType compute, Product, const LinearShape&,
                                               const Fp8Bytes&);

  // As Device::choices() and take(). Products that exist follow what is taken.
  LibraryChoices choices() const;
  void take(const LibraryChoices&);

  // Compares the library with the own kernel on `device`, one small shape for each of the three
  // products and each storage type, and what it makes of bytes in fp8 with sums of the host, before
  // any other product is made. Where they disagree the own kernel computes from then on. Returns a
  // line for each.
  std::vector<std::string> check(Device& device);

  // "cuBLASLt 130100", with what check() has switched off; "own products" without a library.
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
