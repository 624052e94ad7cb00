// The table of choices.
#include "backend/gpu/libraries/products.h"

#include "backend/gpu/libraries/self_check.h"
#include "base/error.h"

namespace trireme::gpu {

// A product with or without a bias, and who computes it.
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
  const LinearProduct& product() const { return algorithm_ == own_algorithm ? *own_ : *library_; }

 private:
  // Who has no algorithm for a shape leaves it to the own kernel.
  void use_first_answer() {
    const std::string answer = library_->first_answer();
    if (!answer.empty() && library_->use(answer)) algorithm_ = answer;
  }

  std::shared_ptr<const LinearProduct> own_;
  std::unique_ptr<LibraryProduct> library_;
  std::string algorithm_ = own_algorithm;
};

// What a caller holds: whether there is a bias shows when it runs.
class Products::Linear final : public LinearProduct {
 public:
  Linear(std::shared_ptr<const LinearProduct> own, std::shared_ptr<const Chosen> plain,
         std::shared_ptr<const Chosen> with_bias)
      : own_(std::move(own)), plain_(std::move(plain)), with_bias_(std::move(with_bias)) {}

  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    // No layer adds both a bias and what was there; not every library can.
    const LinearProduct& product = !bias        ? plain_->product()
                                   : accumulate ? *own_
                                                : with_bias_->product();
    product.run(queue, dst, a, b, bias, accumulate, workspace);
  }

 private:
  std::shared_ptr<const LinearProduct> own_;
  std::shared_ptr<const Chosen> plain_, with_bias_;
};

Products::Products(std::string device, MakeProduct own, std::unique_ptr<ProductLibrary> library)
    : device_(std::move(device)), own_(std::move(own)), library_(std::move(library)) {}
Products::~Products() = default;

std::shared_ptr<Products::Chosen> Products::chosen(
    const ProductKey& key, const std::shared_ptr<const LinearProduct>& own) {
  std::shared_ptr<Chosen>& chosen = chosen_[key];
  if (chosen) return chosen;
  const bool off = off_.count({key.product, key.compute}) > 0;
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
    if (recorded != choices.algorithms.end() && off_.count({key.product, key.compute}) == 0)
      chosen->use(recorded->second, choices.library);
  }
}

std::vector<std::string> Products::check(Device& device) {
  if (!library_) return {};
  std::vector<std::string> lines;
  const auto library = [&](DType compute, Product product, const LinearShape& shape) {
    return linear(compute, product, shape);
  };
  for (const Disagreement& found : disagreements(device, library, own_)) {
    off_.insert({found.product, found.compute});
    const std::string what =
        found.failure.empty()
            ? fmt::format(
                  "differs from the own kernel by {:.2g} of the largest element, and {:.2g} "
                  "is allowed",
                  found.error, found.allowed)
            : found.failure;
    lines.push_back(fmt::format("{} on {}, {} in {}: {}; the own kernel takes its place",
                                library_->name(), device_, record_name(found.product),
                                name_of(found.compute), what));
  }
  chosen_.clear();  // what the check made is no product of the run
  return lines;
}

std::string Products::signature() const {
  if (!library_) return "own products";
  std::string text = library_->name();
  for (const auto& [product, compute] : off_)
    text += fmt::format(", own {} in {}", record_name(product), name_of(compute));
  return text;
}

}  // namespace trireme::gpu
