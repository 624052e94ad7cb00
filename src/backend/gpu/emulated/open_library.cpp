// open_library.h on the emulated GPU: a stand-in that computes by the own kernel, for tests of how
// a run treats libraries. TRIREME_EMULATED_LIBRARY in the environment is its version; without it
// there is none.
#include "backend/gpu/libraries/open_library.h"

#include <cstdlib>

#include "backend/gpu/emulated/fault.h"
#include "backend/gpu/libraries/column_major.h"
#include "backend/gpu/product.h"
#include "backend/gpu_workspace.h"

namespace trireme::gpu {
namespace {

class StandInProduct final : public LibraryProduct {
 public:
  explicit StandInProduct(const ProductKey& key)
      : key_(key), own_(own_linear(key.compute, key.product, key.shape())) {}

  std::string first_answer() const override { return "first"; }
  bool use(const std::string& algorithm) override {
    return algorithm == "first" || algorithm == "second";
  }
  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    check_alignment(key_, dst, a, b);
    queue.fill(workspace, 0xff, stand_in_workspace);  // all of it is the product's
    own_->run(queue, dst, a, b, bias, accumulate, workspace);
    if (is_wrong()) own_->run(queue, dst, a, b, nullptr, true, workspace);
  }

 private:
  bool is_wrong() const {
    return emulated::planted(emulated::Fault::wrong_library) && key_.compute == DType::bf16 &&
           key_.product == Product::weight_grad;
  }

  ProductKey key_;
  std::shared_ptr<const LinearProduct> own_;
};

class StandIn final : public ProductLibrary {
 public:
  explicit StandIn(std::string version) : version_(std::move(version)) {}
  std::string name() const override { return "a stand-in library " + version_; }
  std::unique_ptr<LibraryProduct> product(const ProductKey& key) override {
    return std::make_unique<StandInProduct>(key);
  }

 private:
  std::string version_;
};

}  // namespace

OpenedLibrary open_library() {
  const char* const version = std::getenv("TRIREME_EMULATED_LIBRARY");
  return {version ? std::make_unique<StandIn>(version) : nullptr, ""};
}

}  // namespace trireme::gpu
