// Algorithms of the second library are marked by a prefix.
#include "backend/gpu/libraries/either_library.h"

#include <string_view>

namespace trireme::gpu {
namespace {

constexpr std::string_view mark = "second:";

class EitherProduct final : public LibraryProduct {
 public:
  EitherProduct(std::unique_ptr<LibraryProduct> first, std::unique_ptr<LibraryProduct> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  std::string first_answer() const override {
    if (std::string answer = first_ ? first_->first_answer() : ""; !answer.empty()) return answer;
    const std::string answer = second_ ? second_->first_answer() : "";
    return answer.empty() ? "" : std::string(mark) + answer;
  }
  bool use(const std::string& algorithm) override {
    const bool is_second = algorithm.starts_with(mark);
    LibraryProduct* const product = is_second ? second_.get() : first_.get();
    if (!product || !product->use(is_second ? algorithm.substr(mark.size()) : algorithm))
      return false;
    used_ = product;
    return true;
  }
  bool takes(const void* dst, const void* a, const void* b) const override {
    return used_->takes(dst, a, b);
  }
  void take_scales(const float* a, const float* b) const override { used_->take_scales(a, b); }
  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    used_->run(queue, dst, a, b, bias, accumulate, workspace);
  }

 private:
  std::unique_ptr<LibraryProduct> first_, second_;
  LibraryProduct* used_ = nullptr;
};

class EitherLibrary final : public ProductLibrary {
 public:
  EitherLibrary(std::unique_ptr<ProductLibrary> first, std::unique_ptr<ProductLibrary> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  std::string name() const override { return first_->name() + ", " + second_->name(); }
  std::unique_ptr<LibraryProduct> product(const ProductKey& key) override {
    auto first = first_->product(key), second = second_->product(key);
    if (!first && !second) return nullptr;
    return std::make_unique<EitherProduct>(std::move(first), std::move(second));
  }

 private:
  std::unique_ptr<ProductLibrary> first_, second_;
};

}  // namespace

std::unique_ptr<ProductLibrary> either_library(std::unique_ptr<ProductLibrary> first,
                                               std::unique_ptr<ProductLibrary> second) {
  if (!first) return second;
  if (!second) return first;
  return std::make_unique<EitherLibrary>(std::move(first), std::move(second));
}

}  // namespace trireme::gpu
