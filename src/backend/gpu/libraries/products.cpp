// Table of the products and their algorithms.
#include "backend/gpu/libraries/products.h"

#include "backend/gpu/libraries/fp8_check.h"
#include "backend/gpu/libraries/self_check.h"
#include "base/error.h"

namespace trireme::gpu {
namespace {

ProductClass class_of(const ProductKey& key) {
  return {key.product, key.compute, key.fp8};
}

}  // namespace

std::string name_of(const ProductClass& of) {
  const std::string bytes = of.fp8.is_used()
                                ? fmt::format(" of bytes in {} and {} ({})", record_name(of.fp8.a),
                                              record_name(of.fp8.b), record_name(of.fp8.scales))
                                : "";
  return fmt::format("{}{} in {}", record_name(of.product), bytes, trireme::name_of(of.compute));
}

// A product with or without a bias, and its implementation.
class Products::Chosen {
 public:
  Chosen(std::shared_ptr<const LinearProduct> own, std::unique_ptr<LibraryProduct> library)
      : own_(std::move(own)), library_(std::move(library)) {
    if (library_) use_first_answer();
  }

  void use(const std::string& algorithm, const std::string& library) {
    if (algorithm != own_algorithm && !(library_ && library_->use(algorithm)))
      fail("{} does not know the recorded algorithm '{}' of a product", library, algorithm);
    algorithm_ = algorithm;
  }
  const std::string& algorithm() const { return algorithm_; }
  bool is_own() const { return algorithm_ == own_algorithm; }
  // The built-in kernel takes operands of any alignment. `addend` is one of the destination's form.
  const LinearProduct& product(const void* dst, const void* a, const void* b,
                               const void* addend = nullptr) const {
    const bool is_taken =
        !is_own() && library_->takes(dst, a, b) && (!addend || library_->takes(addend, a, b));
    return is_taken ? static_cast<const LinearProduct&>(*library_) : *own_;
  }
  const LibraryProduct& of_library() const { return *library_; }

 private:
  // Falls back to the built-in kernel if the library has no algorithm for the shape.
  void use_first_answer() {
    const std::string answer = library_->first_answer();
    if (!answer.empty() && library_->use(answer)) algorithm_ = answer;
  }

  std::shared_ptr<const LinearProduct> own_;
  std::unique_ptr<LibraryProduct> library_;
  std::string algorithm_ = own_algorithm;
};

// The object that callers hold: whether there is a bias is known only in run().
class Products::Linear final : public LinearProduct {
 public:
  Linear(std::shared_ptr<const LinearProduct> own, std::shared_ptr<const Chosen> plain,
         std::shared_ptr<const Chosen> with_bias)
      : own_(std::move(own)), plain_(std::move(plain)), with_bias_(std::move(with_bias)) {}

  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    // No layer needs both a bias and accumulation, and not every library supports both.
    const LinearProduct& product = !bias        ? plain_->product(dst, a, b)
                                   : accumulate ? *own_
                                                : with_bias_->product(dst, a, b);
    product.run(queue, dst, a, b, bias, accumulate, workspace);
  }
  bool run_onto(Queue& queue, void* dst, const void* addend, const void* a, const void* b,
                const void* bias, void* workspace) const override {
    return (bias ? with_bias_ : plain_)
        ->product(dst, a, b, addend)
        .run_onto(queue, dst, addend, a, b, bias, workspace);
  }

 private:
  std::shared_ptr<const LinearProduct> own_;
  std::shared_ptr<const Chosen> plain_, with_bias_;
};

// The caller has a fallback for fp8 products other than the built-in kernel.
class Products::Fp8Linear final : public Fp8Product {
 public:
  Fp8Linear(std::shared_ptr<const Chosen> plain, std::shared_ptr<const Chosen> with_bias)
      : plain_(std::move(plain)), with_bias_(std::move(with_bias)) {}

  bool computes(bool bias) const override { return !(bias ? with_bias_ : plain_)->is_own(); }
  void run(Queue& queue, void* dst, const Fp8Operand& a, const Fp8Operand& b, const void* bias,
           bool accumulate, void* workspace) const override {
    TRIREME_CHECK(computes(bias) && !(bias && accumulate));
    const LibraryProduct& product = (bias ? with_bias_ : plain_)->of_library();
    product.take_scales(a.inverse_scales, b.inverse_scales);
    product.run(queue, dst, a.bytes, b.bytes, bias, accumulate, workspace);
  }

 private:
  std::shared_ptr<const Chosen> plain_, with_bias_;
};

Products::Products(std::string device, MakeProduct own, std::unique_ptr<ProductLibrary> library)
    : device_(std::move(device)), own_(std::move(own)), library_(std::move(library)) {}
Products::~Products() = default;

std::shared_ptr<Products::Chosen> Products::chosen(
    const ProductKey& key, const std::shared_ptr<const LinearProduct>& own) {
  std::shared_ptr<Chosen>& chosen = chosen_[key];
  if (chosen) return chosen;
  const bool off = off_.contains(class_of(key));
  chosen = std::make_shared<Chosen>(own, off ? nullptr : library_->product(key));
  const auto recorded = taken_.algorithms.find(key);
  if (recorded != taken_.algorithms.end() && !off) chosen->use(recorded->second, library_->name());
  return chosen;
}

std::shared_ptr<const LinearProduct> Products::linear(DType compute, Product product,
                                                      const LinearShape& shape) {
  auto own = own_(compute, product, shape);
  const bool empty = shape.rows == 0 || shape.in == 0 || shape.out == 0;
  if (!library_ || empty) return own;
  const auto key = [&](bool bias) {
    return ProductKey{product, bias, compute, shape.rows, shape.in, shape.out};
  };
  auto plain = chosen(key(false), own);
  auto with_bias = product == Product::forward ? chosen(key(true), own) : plain;
  return std::make_shared<Linear>(std::move(own), std::move(plain), std::move(with_bias));
}

std::shared_ptr<const Fp8Product> Products::fp8_linear(DType compute, Product product,
                                                       const LinearShape& shape,
                                                       const Fp8Bytes& bytes) {
  if (!library_) return nullptr;
  const auto key = [&](bool bias) {
    return ProductKey{product, bias, compute, shape.rows, shape.in, shape.out, bytes};
  };
  auto plain = chosen(key(false), nullptr);
  auto with_bias = product == Product::forward ? chosen(key(true), nullptr) : plain;
  return std::make_shared<Fp8Linear>(std::move(plain), std::move(with_bias));
}

LibraryChoices Products::choices() const {
  if (!library_) return {};
  LibraryChoices choices{device_, library_->name(), {}};
  for (const auto& [key, chosen] : chosen_) choices.algorithms[key] = chosen->algorithm();
  return choices;
}

void Products::take(const LibraryChoices& choices) {
  TRIREME_CHECK(library_ && choices.device == device_ && choices.library == library_->name());
  taken_ = choices;
  for (const auto& [key, chosen] : chosen_) {
    const auto recorded = choices.algorithms.find(key);
    if (recorded != choices.algorithms.end() && !off_.contains(class_of(key)))
      chosen->use(recorded->second, choices.library);
  }
}

std::vector<std::string> Products::check(Device& device) {
  if (!library_) return {};
  std::vector<std::string> lines;
  const auto library = [&](DType compute, Product product, const LinearShape& shape) {
    return linear(compute, product, shape);
  };
  const auto bytes = [&](const ProductClass& of, const LinearShape& shape) {
    return fp8_linear(of.compute, of.product, shape, of.fp8);
  };
  std::vector<Disagreement> all = disagreements(device, library, own_);
  for (Disagreement& found : fp8_disagreements(device, bytes)) all.push_back(std::move(found));
  for (const Disagreement& found : all) {
    off_.insert(found.of);
    const std::string what =
        found.failure.empty()
            ? fmt::format("differs from {} by {:.2g} of the largest element, and {:.2g} is allowed",
                          found.of.fp8.is_used() ? "the host's sums" : "the own kernel",
                          found.error, found.allowed)
            : found.failure;
    lines.push_back(fmt::format("{} on {}, {}: {}; the own kernel takes its place",
                                library_->name(), device_, gpu::name_of(found.of), what));
  }
  chosen_.clear();  // discards the products of the check
  return lines;
}

std::string Products::signature() const {
  if (!library_) return "own products";
  std::string text = library_->name();
  for (const ProductClass& off : off_) text += ", own " + gpu::name_of(off);
  return text;
}

}  // namespace trireme::gpu
