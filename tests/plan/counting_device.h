// The CPU, with a count of every entry into its tables of kernels: what a real run did, as told by
// nobody who records.
#pragma once

#include <map>
#include <string>

#include "backend/cpu/device.h"
#include "backend/entry_name.h"

namespace trireme::testing_plan {

using Counts = std::map<std::string, std::int64_t>;

class CountingQueue final : public Queue {
 public:
  void copy(void* dst, const void* src, std::int64_t bytes) override {
    ++counts["copy"];
    cpu::queue().copy(dst, src, bytes);
  }
  void fill(void* dst, std::uint8_t byte, std::int64_t bytes) override {
    ++counts["fill"];
    cpu::queue().fill(dst, byte, bytes);
  }
  void record(Event& event) override { cpu::queue().record(event); }
  void wait(const Event& event) override { cpu::queue().wait(event); }
  void synchronize() override { cpu::queue().synchronize(); }

  Counts counts;
};

template <auto entry, EntryName name>
struct Counted;
template <class T, class... Args, void (*Kernels<T>::*entry)(Queue&, Args...), EntryName name>
struct Counted<entry, name> {
  static void run(Queue& queue, Args... args) {
    ++static_cast<CountingQueue&>(queue).counts[name.characters];
    (cpu::device().kernels<T>().*entry)(cpu::queue(), args...);
  }
};
template <class... Args, void (*StateKernels::*entry)(Queue&, Args...), EntryName name>
struct Counted<entry, name> {
  static void run(Queue& queue, Args... args) {
    ++static_cast<CountingQueue&>(queue).counts[name.characters];
    (cpu::device().state_kernels().*entry)(cpu::queue(), args...);
  }
};

template <class T>
const Kernels<T>& counting_kernels() {
  static const Kernels<T> table = [] {
    Kernels<T> filled{};
#define TRIREME_COUNT(entry) filled.entry = Counted<&Kernels<T>::entry, #entry>::run;
    TRIREME_KERNELS(TRIREME_COUNT)
#undef TRIREME_COUNT
    return filled;
  }();
  return table;
}

inline const StateKernels& counting_state_kernels() {
  static const StateKernels table = [] {
    StateKernels filled{};
#define TRIREME_COUNT(entry) filled.entry = Counted<&StateKernels::entry, "state " #entry>::run;
    TRIREME_STATE_KERNELS(TRIREME_COUNT)
#undef TRIREME_COUNT
    return filled;
  }();
  return table;
}

class CountedProduct final : public LinearProduct {
 public:
  CountedProduct(std::shared_ptr<const LinearProduct> real, Product product)
      : real_(std::move(real)),
        name_(product == Product::forward      ? "product"
              : product == Product::input_grad ? "product of the input gradient"
                                               : "product of the weight gradient") {}
  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    ++static_cast<CountingQueue&>(queue).counts[name_];
    real_->run(cpu::queue(), dst, a, b, bias, accumulate, workspace);
  }

 private:
  std::shared_ptr<const LinearProduct> real_;
  std::string name_;
};

class CountingDevice final : public Device {
 public:
  CountingDevice()
      : Device({&counting_kernels<float>(), &counting_kernels<bf16>(), &counting_kernels<f16>(),
                &counting_kernels<double>()},
               counting_state_kernels()) {}

  Counts& counts() { return queue_.counts; }
  std::int64_t mapped() const { return mapped_; }

  std::string name() const override { return cpu::device().name(); }
  std::string signature() const override { return cpu::device().signature(); }
  const Target& target() const override { return cpu::device().target(); }
  Queue& queue(QueueRole) override { return queue_; }
  std::shared_ptr<const LinearProduct> linear(DType compute, Product product,
                                              const LinearShape& shape) override {
    return std::make_shared<CountedProduct>(cpu::device().linear(compute, product, shape), product);
  }
  void write(void* dst, std::int64_t bytes, const std::function<void(std::byte*)>& fill) override {
    ++queue_.counts["write"];
    cpu::device().write(dst, bytes, fill);
  }
  void read(const void* src, std::int64_t bytes,
            const std::function<void(const std::byte*)>& use) override {
    ++queue_.counts["read"];
    cpu::device().read(src, bytes, use);
  }

 private:
  std::byte* do_allocate(std::int64_t bytes) override {
    mapped_ += bytes;
    return cpu::device().allocate(bytes);
  }
  void do_release(std::byte* memory, std::int64_t bytes) override {
    mapped_ -= bytes;
    cpu::device().release(memory, bytes);
  }

  CountingQueue queue_;
  std::int64_t mapped_ = 0;
};

}  // namespace trireme::testing_plan
