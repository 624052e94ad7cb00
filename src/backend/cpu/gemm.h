// Matrix products of the CPU backend: the three products of a linear layer, on the global thread
// pool, with results that do not depend on the number of threads.
//
// A Linear is made once per shape (it holds ready-made library primitives) and run many times.
// weight is [out, in] as in PyTorch and Megatron; rows counts tokens; x is [rows, in] and y is
// [rows, out]. Row strides (ld) are in elements.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/cpu/kernels.h"
#include "backend/device.h"

namespace trireme::cpu {

// One product for one shape and storage type.
template <class T>
class Linear final : public LinearProduct {
 public:
  // `set` is for tests that compare instruction sets; the processor must have it.
  Linear(Product product, const LinearShape& shape, Isa set = isa());
  ~Linear() override;
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  // Scratch in bytes that run() needs, of any alignment; it does not depend on the thread count.
  std::int64_t workspace_bytes() const;

  // As LinearProduct::run. Calls on one Linear may run at once with own workspaces.
  void run(void* dst, const T* a, const T* b, const T* bias, bool accumulate,
           void* workspace) const;
  void run(Queue&, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    run(dst, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<const T*>(bias),
        accumulate, workspace);
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The same, made once and shared by all that ask for the same product while anybody holds it.
template <class T>
std::shared_ptr<const Linear<T>> shared_linear(Product product, const LinearShape& shape);

// A forward product, or that of an input gradient, whose sums stay in Acc<T>. It takes no bias.
std::shared_ptr<const LinearProduct> make_sums(DType compute, Product product,
                                               const LinearShape& shape);

}  // namespace trireme::cpu
