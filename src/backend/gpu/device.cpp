// A GPU as Trireme's device: runtime memory, streams, kernels and products.
#include "backend/gpu/device.h"

#include <mutex>
#include <optional>

#include "backend/gpu/host_wait.h"
#include "backend/gpu/kernels/any_kernel.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/libraries/open_library.h"
#include "backend/gpu/libraries/products.h"
#include "backend/gpu/machine.h"
#include "backend/gpu/product.h"
#include "backend/gpu/queue.h"
#include "backend/gpu/staging.h"
#include "base/error.h"

namespace trireme::gpu {
namespace {

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(const Target& target)
      : Device({&gpu::kernels<float>(), &gpu::kernels<bf16>(), &gpu::kernels<f16>(),
                &gpu::kernels<double>()},
               gpu::state_kernels()),
        target_(target) {
    if (std::string problem = runtime::why_no_kernel(any_kernel()); !problem.empty())
      fail("{}", problem);
    OpenedLibrary opened = open_library();  // the queues have found a device
    const bool is_fault = opened.is_missing && runtime::matrix_rate() > runtime::large_matrix_rate;
    if (!opened.note.empty()) notes_.push_back({opened.note, is_fault});
    products_.emplace(runtime::device_name(), own_linear, std::move(opened.library));
    for (std::string& line : products_->check(*this)) notes_.push_back({std::move(line), true});
  }

  std::string name() const override { return runtime::device_name(); }
  std::string signature() const override {
    return runtime::device_signature() + ", " + products_->signature();
  }
  std::int64_t memory_bytes() const override { return runtime::memory_bytes(); }
  std::int64_t free_bytes() const override { return runtime::free_bytes(); }
  std::string address() const override { return runtime::address(); }
  const Target& target() const override { return target_; }
  Queue& queue(QueueRole role) override {
    const auto number = static_cast<std::size_t>(role);
    if (number < queues_.size()) return queues_[number];
    std::call_once(copies_made_, [this] { copies_.emplace(); });
    return copies_->queues[number - queues_.size()];
  }

  const CollectiveTable* collectives(std::string& problem) const override {
    return runtime::collectives(problem);
  }
  void set_wait_policy(WaitPolicy* policy) override { gpu::set_wait_policy(policy); }

  std::shared_ptr<const LinearProduct> linear(DType compute, Product product,
                                              const LinearShape& shape) override {
    return products_->linear(compute, product, shape);
  }
  // A library chooses its order of additions itself.
  std::shared_ptr<const LinearProduct> leaf_linear(DType compute, Product product,
                                                   const LinearShape& shape, bool sums) override {
    return sums ? own_sums(compute, product, shape) : own_linear(compute, product, shape);
  }
  std::shared_ptr<const Fp8Product> fp8_linear(DType compute, Product product,
                                               const LinearShape& shape,
                                               const Fp8Bytes& bytes) override {
    return products_->fp8_linear(compute, product, shape, bytes);
  }
  std::shared_ptr<const GroupedProduct> grouped(DType compute, Product product,
                                                const GroupedShape& shape) override {
    return own_grouped(compute, product, shape);
  }
  LibraryChoices choices() const override { return products_->choices(); }
  void take(const LibraryChoices& choices) override { products_->take(choices); }
  std::vector<DeviceNote> notes() const override { return notes_; }

  void write(void* dst, std::int64_t bytes,
             const std::function<void(std::byte* host)>& fill) override {
    if (bytes > 0) staging_.write(compute(), dst, bytes, fill);
  }
  void read(const void* src, std::int64_t bytes,
            const std::function<void(const std::byte* host)>& use) override {
    if (bytes > 0) staging_.read(compute(), src, bytes, use);
  }

 private:
  GpuQueue& compute() { return queues_[static_cast<std::size_t>(QueueRole::compute)]; }

  // Synchronizes all queues, before memory that they use is released.
  void synchronize() {
    try {
      for (GpuQueue& queue : queues_) queue.synchronize();
      if (!copies_) return;
      for (GpuQueue& queue : copies_->queues) queue.synchronize();
    } catch (const Error&) {
      // A lost device was already reported; this is called while that error ends the run.
    }
  }

  std::byte* do_allocate(std::int64_t bytes) override {
    auto* const memory = static_cast<std::byte*>(runtime::allocate(bytes));
    if (!memory) return nullptr;
    compute().fill(memory, 0, bytes);
    compute().synchronize();  // every queue may use the memory from now on
    return memory;
  }
  void do_release(std::byte* memory, std::int64_t bytes) override {
    synchronize();
    runtime::release(memory, bytes);
  }
  std::byte* do_allocate_host(std::int64_t bytes) override {
    return static_cast<std::byte*>(runtime::allocate_pinned(bytes));
  }
  void do_release_host(std::byte* memory, std::int64_t bytes) override {
    synchronize();
    runtime::release_pinned(memory, bytes);
  }

  static constexpr auto first_copies = static_cast<std::size_t>(QueueRole::load);

  Target target_;
  // Communication has priority over computation, which has enough blocks to fill the gaps.
  std::array<GpuQueue, first_copies> queues_{GpuQueue(false), GpuQueue(true), GpuQueue(true),
                                             GpuQueue(true)};
  struct Copies {
    std::array<GpuQueue, static_cast<std::size_t>(QueueRole::count) - first_copies> queues{
        GpuQueue(false), GpuQueue(false)};
  };
  std::optional<Copies> copies_;
  std::once_flag copies_made_;
  Staging staging_;
  std::optional<Products> products_;
  std::vector<DeviceNote> notes_;
};

}  // namespace

Device* make_device(const Target& target, int index) {
  if (target.device != runtime::kind())
    fail("internal error: the plug-in for {} was opened as {}", name_of(runtime::kind()),
         name_of(target.device));
  runtime::select(index);
  return new GpuDevice(target);
}

}  // namespace trireme::gpu
