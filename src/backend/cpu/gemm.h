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

namespace trireme::cpu {

enum class Product : std::uint8_t {
  forward,      // y = x weight^T + bias
  input_grad,   // dx = dy weight
  weight_grad,  // dweight (+)= dy^T x, in Acc<T>
};

struct LinearShape {
  std::int64_t rows, in, out;
};

// One product for one shape and storage type.
template <class T>
class Linear {
 public:
  // `set` is for tests that compare instruction sets; the processor must have it.
  Linear(Product product, const LinearShape& shape, Isa set = isa());
  ~Linear();
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  // Scratch in bytes that run() needs, of any alignment; it does not depend on the thread count.
  std::int64_t workspace_bytes() const;

  // forward: dst = y, a = x, b = weight, bias [out] may be null; accumulate adds to y.
  // input_grad: dst = dx, a = dy, b = weight; accumulate adds to dx; bias is null.
  // weight_grad: dst = dweight (Acc<T>*), a = dy, b = x; accumulate adds to dweight; bias is null.
  // a, b, bias and dst must not overlap. Calls on one Linear may run at once with own workspaces.
  void run(void* dst, const T* a, const T* b, const T* bias, bool accumulate,
           void* workspace) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The same, made once and shared by all that ask for the same product while anybody holds it.
template <class T>
std::shared_ptr<const Linear<T>> shared_linear(Product product, const LinearShape& shape);

}  // namespace trireme::cpu
