// The CPU as a device that intercepts everything that runs on it.
#pragma once

#include <functional>
#include <memory>

#include "backend/cpu/device.h"
#include "backend/entry_name.h"

namespace trireme::testing_device {

class WrappedDevice : public Device {
 public:
  WrappedDevice();

  // Runs `work`: a kernel table entry, a GEMM, a copy or a host access.
  virtual void around(const char* name, const std::function<void()>& work) = 0;

  std::string name() const override { return cpu::device().name(); }
  std::string signature() const override { return cpu::device().signature(); }
  const Target& target() const override { return cpu::device().target(); }
  Queue& queue(QueueRole) override { return *queue_; }
  std::shared_ptr<const LinearProduct> linear(DType compute, Product product,
                                              const LinearShape& shape) override;
  std::shared_ptr<const LinearProduct> leaf_linear(DType compute, Product product,
                                                   const LinearShape& shape, bool sums) override;
  std::shared_ptr<const GroupedProduct> grouped(DType compute, Product product,
                                                const GroupedShape& shape) override;
  void write(void* dst, std::int64_t bytes, const std::function<void(std::byte*)>& fill) override {
    around("write", [&] { cpu::device().write(dst, bytes, fill); });
  }
  void read(const void* src, std::int64_t bytes,
            const std::function<void(const std::byte*)>& use) override {
    around("read", [&] { cpu::device().read(src, bytes, use); });
  }

 protected:
  std::byte* do_allocate(std::int64_t bytes) override { return cpu::device().allocate(bytes); }
  void do_release(std::byte* memory, std::int64_t bytes) override {
    cpu::device().release(memory, bytes);
  }

 private:
  std::unique_ptr<Queue> queue_;
};

class WrappedQueue final : public Queue {
 public:
  explicit WrappedQueue(WrappedDevice& owner) : device(owner) {}

  void copy(void* dst, const void* src, std::int64_t bytes) override {
    device.around("copy", [&] { cpu::queue().copy(dst, src, bytes); });
  }
  void fill(void* dst, std::uint8_t byte, std::int64_t bytes) override {
    device.around("fill", [&] { cpu::queue().fill(dst, byte, bytes); });
  }
  void record(Event& event) override { cpu::queue().record(event); }
  void wait(const Event& event) override { cpu::queue().wait(event); }
  void synchronize() override { cpu::queue().synchronize(); }

  WrappedDevice& device;
};

template <auto entry, EntryName name>
struct WrappedEntry;
template <class T, class... Args, void (*Kernels<T>::*entry)(Queue&, Args...), EntryName name>
struct WrappedEntry<entry, name> {
  static void run(Queue& queue, Args... args) {
    static_cast<WrappedQueue&>(queue).device.around(
        name.characters, [&] { (cpu::device().kernels<T>().*entry)(cpu::queue(), args...); });
  }
};
template <class... Args, void (*StateKernels::*entry)(Queue&, Args...), EntryName name>
struct WrappedEntry<entry, name> {
  static void run(Queue& queue, Args... args) {
    static_cast<WrappedQueue&>(queue).device.around(
        name.characters, [&] { (cpu::device().state_kernels().*entry)(cpu::queue(), args...); });
  }
};

template <class T>
const Kernels<T>& wrapped_kernels() {
  static const Kernels<T> table = [] {
    Kernels<T> filled{};
#define TRIREME_WRAP(entry) filled.entry = WrappedEntry<&Kernels<T>::entry, #entry>::run;
    TRIREME_KERNELS(TRIREME_WRAP)
#undef TRIREME_WRAP
    return filled;
  }();
  return table;
}

inline const StateKernels& wrapped_state_kernels() {
  static const StateKernels table = [] {
    StateKernels filled{};
#define TRIREME_WRAP(entry) filled.entry = WrappedEntry<&StateKernels::entry, "state " #entry>::run;
    TRIREME_STATE_KERNELS(TRIREME_WRAP)
#undef TRIREME_WRAP
    return filled;
  }();
  return table;
}

class WrappedProduct final : public LinearProduct {
 public:
  WrappedProduct(std::shared_ptr<const LinearProduct> real, Product product)
      : real_(std::move(real)), name_(name_of(product)) {}
  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    static_cast<WrappedQueue&>(queue).device.around(
        name_, [&] { real_->run(cpu::queue(), dst, a, b, bias, accumulate, workspace); });
  }

 private:
  std::shared_ptr<const LinearProduct> real_;
  const char* name_;
};

class WrappedGroups final : public GroupedProduct {
 public:
  WrappedGroups(std::shared_ptr<const GroupedProduct> real, Product product)
      : real_(std::move(real)), name_(name_of_grouped(product)) {}
  void run(Queue& queue, void* dst, const void* a, const void* b, const std::int32_t* offsets,
           bool accumulate, void* workspace) const override {
    static_cast<WrappedQueue&>(queue).device.around(
        name_, [&] { real_->run(cpu::queue(), dst, a, b, offsets, accumulate, workspace); });
  }
  void run_each(Queue& queue, void* made, const void* a, const void* b, const std::int32_t* offsets,
                void* workspace, const std::function<void(std::int64_t)>& take) const override {
    static_cast<WrappedQueue&>(queue).device.around(
        name_, [&] { real_->run_each(cpu::queue(), made, a, b, offsets, workspace, take); });
  }

 private:
  std::shared_ptr<const GroupedProduct> real_;
  const char* name_;
};

inline WrappedDevice::WrappedDevice()
    : Device({&wrapped_kernels<float>(), &wrapped_kernels<bf16>(), &wrapped_kernels<f16>(),
              &wrapped_kernels<double>()},
             wrapped_state_kernels()),
      queue_(std::make_unique<WrappedQueue>(*this)) {}

inline std::shared_ptr<const LinearProduct> WrappedDevice::linear(DType compute, Product product,
                                                                  const LinearShape& shape) {
  return std::make_shared<WrappedProduct>(cpu::device().linear(compute, product, shape), product);
}

inline std::shared_ptr<const LinearProduct> WrappedDevice::leaf_linear(DType compute,
                                                                       Product product,
                                                                       const LinearShape& shape,
                                                                       bool sums) {
  return std::make_shared<WrappedProduct>(cpu::device().leaf_linear(compute, product, shape, sums),
                                          product);
}

inline std::shared_ptr<const GroupedProduct> WrappedDevice::grouped(DType compute, Product product,
                                                                    const GroupedShape& shape) {
  return std::make_shared<WrappedGroups>(cpu::device().grouped(compute, product, shape), product);
}

}  // namespace trireme::testing_device
