// A device as seen by the host code of a step: memory, in-order queues and tables of kernels. The
// host accesses device memory only through write() and read().
//
// One rule makes the host's program order sufficient: every collective or transfer is ordered after
// all work on the compute queue at the time of the call, and waiting for it makes the compute queue
// wait without blocking the host. The CPU's queues run everything immediately.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "backend/choices.h"
#include "backend/collectives.h"
#include "backend/kernels.h"
#include "backend/state_kernels.h"
#include "backend/target.h"

namespace trireme {

// A point in a queue's work. Empty on devices whose queues run everything immediately.
class Event {
 public:
  std::shared_ptr<void> native;
};

class Queue {
 public:
  virtual ~Queue() = default;

  // Copies src[0, bytes) to dst[0, bytes). Each lies in device memory or in memory from
  // allocate_host(); they must not overlap.
  virtual void copy(void* dst, const void* src, std::int64_t bytes) = 0;
  virtual void fill(void* dst, std::uint8_t byte, std::int64_t bytes) = 0;
  // Work enqueued after wait() runs after the work that was enqueued before record(), on this or
  // another queue of the device.
  virtual void record(Event& event) = 0;
  virtual void wait(const Event& event) = 0;
  // True if all work enqueued before record() has completed. Does not block.
  virtual bool has_passed(const Event&) { return true; }
  // Blocks until all enqueued work has completed.
  virtual void synchronize() = 0;
  // Like record(), with a timestamp of the device's clock; the host's clock on devices whose queues
  // run everything immediately.
  virtual void record_timed(Event& event);
  // Seconds between two completed events that record_timed() recorded.
  virtual double seconds_between(const Event& begin, const Event& end);
};

// Work to do while the host waits for a device: called repeatedly, from any thread, until the
// wait is over. May throw.
class WaitPolicy {
 public:
  virtual ~WaitPolicy() = default;
  // `round` counts from 0 within a wait. Must return quickly.
  virtual void waiting(int round) = 0;
};

// No more queues than these run kernels: some drivers map further streams to the same hardware
// queues. The last two copy from and to host memory and are created on first use.
enum class QueueRole : std::uint8_t { compute, gather, reduce, pipeline, load, store, count };

// A product of a linear layer for one shape, made once and run many times.
class LinearProduct {
 public:
  virtual ~LinearProduct() = default;
  // forward: dst = y, a = x, b = weight, bias [out] may be null; accumulate adds to y.
  // input_grad: dst = dx, a = dy, b = weight; accumulate adds to dx; bias is null.
  // weight_grad: dst = dweight (Acc<T>*), a = dy, b = x; accumulate adds to dweight; bias is null.
  // bias and dst must not alias anything; a may be b. The ops plan the workspace's size.
  virtual void run(Queue&, void* dst, const void* a, const void* b, const void* bias,
                   bool accumulate, void* workspace) const = 0;
  // forward: dst = addend + y, rounded once; dst must not be the addend. Returns false, with
  // nothing done, if the implementation cannot add: the caller then runs the product and adds.
  virtual bool run_onto(Queue&, void* /*dst*/, const void* /*addend*/, const void* /*a*/,
                        const void* /*b*/, const void* /*bias*/, void* /*workspace*/) const {
    return false;
  }
};

// An fp8 operand of a product: a matrix whose rows run along the summed dimension, [rows or columns
// of the result, K], as Kernels<T>::fp8_bytes makes it, and its inverse scales: one or, blockwise,
// one per 128 numbers of each row, [blocks, rows]; for a weight, which has square tiles, [row
// blocks, blocks rounded up to a multiple of 4].
struct Fp8Operand {
  const std::uint8_t* bytes;
  const float* inverse_scales;
};

// A product of a linear layer that a library computes from fp8 bytes with sums in fp32.
class Fp8Product {
 public:
  virtual ~Fp8Product() = default;
  // True if the library supports the product with (without) a bias; else the caller falls back.
  virtual bool computes(bool bias) const = 0;
  // Like LinearProduct::run. The result has the type the product was created with.
  virtual void run(Queue&, void* dst, const Fp8Operand& a, const Fp8Operand& b, const void* bias,
                   bool accumulate, void* workspace) const = 0;
};

// A grouped product (one GEMM per group of rows), made once and run many times.
class GroupedProduct {
 public:
  virtual ~GroupedProduct() = default;
  // Like LinearProduct::run, without a bias. offsets [groups * blocks + 1] lie in device memory.
  // forward and input_grad: rows of dst outside all groups become zero. weight_grad: groups without
  // rows become zero or, with accumulate, stay unchanged; blocks must be 1.
  virtual void run(Queue&, void* dst, const void* a, const void* b, const std::int32_t* offsets,
                   bool accumulate, void* workspace) const = 0;
  // weight_grad, block by block of each group: writes each block's gradient to `made` [out, in] and
  // calls take(group) before the next one. Blocks without rows are skipped or give zeros.
  virtual void run_each(Queue&, void* made, const void* a, const void* b,
                        const std::int32_t* offsets, void* workspace,
                        const std::function<void(std::int64_t)>& take) const = 0;
};

// Identifies a piece of a step: equal keys mean the same kernels with the same sizes.
struct WorkKey {
  int chunk = 0;    // index of the rank's stage
  int pass = 0;     // forward, backward ...
  int segment = 0;  // index within the stage
  bool first_micro_batch = false;

  auto operator<=>(const WorkKey&) const = default;
};

// A message about something found when a device was opened.
struct DeviceNote {
  std::string text;
  bool is_fault = false;  // a library is missing, or was disabled because it gave wrong results
};

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Name such as "the CPU (avx512)", and a signature that must match on all ranks of a run.
  virtual std::string name() const = 0;
  virtual std::string signature() const = 0;
  // The target that plans for this device are made for.
  virtual const Target& target() const = 0;

  // Returns zeroed, page-aligned memory, or null if out of memory. bytes > 0. The caller
  // releases it with the same size.
  std::byte* allocate(std::int64_t bytes);
  void release(std::byte* memory, std::int64_t bytes);
  // Number of bytes currently allocated.
  std::int64_t allocated() const { return allocated_; }
  // Pinned, page-aligned host memory that queues copy from and to while others compute. Its initial
  // contents are undefined. The host may access it while no copy does.
  std::byte* allocate_host(std::int64_t bytes);
  void release_host(std::byte* memory, std::int64_t bytes);
  std::int64_t allocated_host() const { return allocated_host_; }

  // Total memory of the device in bytes; 0 if unknown.
  virtual std::int64_t memory_bytes() const { return 0; }
  // Number of those bytes that this process can still allocate.
  virtual std::int64_t free_bytes() const { return memory_bytes(); }
  // PCI address of the device ("0000:81:00.0"); empty if unknown.
  virtual std::string address() const { return {}; }

  virtual Queue& queue(QueueRole role = QueueRole::compute) = 0;
  // False if enqueued work never runs; device memory then cannot be read or written.
  virtual bool computes() const { return true; }

  // Loads the device's collective library (NCCL, RCCL). Returns null if there is none, with the
  // reason in `problem` if known.
  virtual const CollectiveTable* collectives(std::string& /*problem*/) const { return nullptr; }
  // Sets the policy to call in all later waits for the device; with null the host just sleeps. The
  // policy must outlive those waits.
  virtual void set_wait_policy(WaitPolicy*) {}

  // Brackets work that consists of the same kernels with the same sizes whenever the key is equal,
  // as long as the stages keep their shape; addresses may differ. Returns whether the work has to
  // be enqueued: the recording device only counts repetitions.
  virtual bool begin_once(const WorkKey&) { return true; }
  virtual void end_once() {}

  template <class T>
  const Kernels<T>& kernels() const {
    return *std::get<const Kernels<T>*>(kernels_);
  }
  const StateKernels& state_kernels() const { return *state_kernels_; }
  virtual std::shared_ptr<const LinearProduct> linear(DType compute, Product,
                                                      const LinearShape&) = 0;
  // The product of one leaf of a linear layer (parallel.exact_leaves): its bits depend only on the
  // shape and the operands, not on their addresses. With `sums`, results have the type of sums.
  virtual std::shared_ptr<const LinearProduct> leaf_linear(DType compute, Product,
                                                           const LinearShape&, bool sums) = 0;
  // Product of fp8 operands with a result of type `compute`. Null if no library has it.
  virtual std::shared_ptr<const Fp8Product> fp8_linear(DType /*compute*/, Product,
                                                       const LinearShape&, const Fp8Bytes&) {
    return nullptr;
  }
  // Throws if the device does not support such products.
  virtual std::shared_ptr<const GroupedProduct> grouped(DType compute, Product,
                                                        const GroupedShape&);
  // The library's algorithms for the products created so far. Empty if no library is used.
  virtual LibraryChoices choices() const { return {}; }
  // Uses these algorithms from now on for the products they name, existing ones included. They must
  // be of the same device and library; throws Error if the library does not know one.
  virtual void take(const LibraryChoices&) {}
  // Messages that the user should read before a run.
  virtual std::vector<DeviceNote> notes() const { return {}; }

  // Host access to device memory through a pinned staging buffer; on the CPU, the memory itself.
  // write(): `fill` must write all `bytes` of host memory, which are copied to dst in compute-queue
  // order. read(): waits for the compute queue and passes the contents of src to `use`. Recording
  // devices call neither. Thread-safe for disjoint memory (checkpoints use a thread pool);
  // exceptions from `fill` and `use` propagate.
  virtual void write(void* dst, std::int64_t bytes,
                     const std::function<void(std::byte* host)>& fill) = 0;
  virtual void read(const void* src, std::int64_t bytes,
                    const std::function<void(const std::byte* host)>& use) = 0;

 protected:
  using Tables = std::tuple<const Kernels<float>*, const Kernels<bf16>*, const Kernels<f16>*,
                            const Kernels<double>*>;
  Device(const Tables& kernels, const StateKernels& state_kernels)
      : kernels_(kernels), state_kernels_(&state_kernels) {}

  virtual std::byte* do_allocate(std::int64_t bytes) = 0;
  virtual void do_release(std::byte* memory, std::int64_t bytes) = 0;
  // Default for devices whose memory is host memory.
  virtual std::byte* do_allocate_host(std::int64_t bytes) { return do_allocate(bytes); }
  virtual void do_release_host(std::byte* memory, std::int64_t bytes) { do_release(memory, bytes); }

 private:
  Tables kernels_;
  const StateKernels* state_kernels_;
  std::atomic<std::int64_t> allocated_{0}, allocated_host_{0};
};

// Calls body with a value of the C++ type of a compute dtype: body(float{}), body(bf16{}) ...
template <class Body>
auto with_compute_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f64:
      return body(double{});
    case DType::bf16:
      return body(bf16{});
    case DType::f16:
      return body(f16{});
    case DType::f32:
    case DType::i64:
    case DType::i32:
    case DType::u16:
    case DType::u8:
      break;
  }
  return body(float{});  // no integer compute types
}

// The same for the dtype of arithmetic and statistics: double{} or float{}.
template <class Body>
auto with_accumulation_type(DType dtype, Body&& body) {
  return dtype == DType::f64 ? body(double{}) : body(float{});
}

}  // namespace trireme
