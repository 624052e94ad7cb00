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
  // `set` is for tests that compare instruction sets; the processor must support it.
  Linear(Product product, const LinearShape& shape, Isa set = isa());
  ~Linear() override;
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  // Scratch of run() in bytes, of any alignment; independent of the number of threads.
  std::int64_t workspace_bytes() const;

  // See LinearProduct::run. Thread-safe if each call has a separate workspace.
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

// Same, created once and shared by all users of the same product while any of them holds it.
template <class T>
std::shared_ptr<const Linear<T>> shared_linear(Product product, const LinearShape& shape);

// A forward or input-gradient product whose sums stay in Acc<T>, without a bias.
std::shared_ptr<const LinearProduct> make_sums(DType compute, Product product,
                                               const LinearShape& shape);

}  // namespace trireme::cpu
