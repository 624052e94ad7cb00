// A device as the host code of a step sees it: memory, queues that work in order, and tables of
// kernels. The host touches device memory nowhere but through write() and read().
//
// One rule makes host order a correct program: every collective or transfer is ordered behind all
// that the compute queue holds when it is called; waiting for it orders the compute queue behind
// it, without stopping the host. The CPU's queues do everything immediately.
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

// A point in the work of a queue. Empty on devices whose queues do everything at once.
class Event {
 public:
  std::shared_ptr<void> native;
};

class Queue {
 public:
  virtual ~Queue() = default;

  // dst[0, bytes) gets src[0, bytes), each in device memory or in that of allocate_host(); they do
  // not overlap.
  virtual void copy(void* dst, const void* src, std::int64_t bytes) = 0;
  virtual void fill(void* dst, std::uint8_t byte, std::int64_t bytes) = 0;
  // What is enqueued after wait() runs after what was enqueued, here or on another queue of the
  // device, before record().
  virtual void record(Event& event) = 0;
  virtual void wait(const Event& event) = 0;
  // Whether all that was enqueued before record() has run. Does not wait.
  virtual bool has_passed(const Event&) { return true; }
  // Returns when all that was enqueued has run.
  virtual void synchronize() = 0;
  // As record(), with the time on the device's clock; on devices whose queues do everything at
  // once, the host's.
  virtual void record_timed(Event& event);
  // Seconds between two events of record_timed() that have passed.
  virtual double seconds_between(const Event& begin, const Event& end);
};

// What else is to be done while the host waits for a device: asked again and again until the wait
// is over, by any thread. May throw.
class WaitPolicy {
 public:
  virtual ~WaitPolicy() = default;
  // `round` counts from 0 within a wait; returns after a short while.
  virtual void waiting(int round) = 0;
};

// Not more that run kernels: some drivers map further streams to the same hardware queues. The last
// two copy from and to the host's memory, and are made when somebody asks for one of them.
enum class QueueRole : std::uint8_t { compute, gather, reduce, pipeline, load, store, count };

// A product of a linear layer for one shape, made once and run many times.
class LinearProduct {
 public:
  virtual ~LinearProduct() = default;
  // forward: dst = y, a = x, b = weight, bias [out] may be null; accumulate adds to y.
  // input_grad: dst = dx, a = dy, b = weight; accumulate adds to dx; bias is null.
  // weight_grad: dst = dweight (Acc<T>*), a = dy, b = x; accumulate adds to dweight; bias is null.
  // bias and dst overlap nothing; a may be b. workspace: what ops plan for it.
  virtual void run(Queue&, void* dst, const void* a, const void* b, const void* bias,
                   bool accumulate, void* workspace) const = 0;
};

// An operand of a product in bytes: a matrix whose rows are what the product sums over, [rows of
// the result or columns of it, numbers that are summed], as Kernels<T>::fp8_bytes makes it, and the
// inverses of its scales: one or, blockwise, for each 128 numbers of all rows [blocks, rows]; those
// of a weight, which has squares, [blocks of rows, blocks rounded up to a multiple of 4].
struct Fp8Operand {
  const std::uint8_t* bytes;
  const float* inverse_scales;
};

// A product of a linear layer that a library computes from bytes in fp8, with sums in fp32.
class Fp8Product {
 public:
  virtual ~Fp8Product() = default;
  // Whether the library does that, with a bias or without; otherwise the caller has another way.
  virtual bool computes(bool bias) const = 0;
  // As LinearProduct::run. The result is of the type that the product was made with.
  virtual void run(Queue&, void* dst, const Fp8Operand& a, const Fp8Operand& b, const void* bias,
                   bool accumulate, void* workspace) const = 0;
};

// A product of several groups of rows, made once and run many times.
class GroupedProduct {
 public:
  virtual ~GroupedProduct() = default;
  // As LinearProduct::run, without a bias. offsets [groups * blocks + 1] lie in device memory.
  // forward and input_grad: rows of dst that belong to no group become zero. weight_grad: a group
  // without rows gets zeros, or with accumulate nothing; it takes no blocks.
  virtual void run(Queue&, void* dst, const void* a, const void* b, const std::int32_t* offsets,
                   bool accumulate, void* workspace) const = 0;
  // weight_grad of one block of one group after the other, of those with rows: `made` [out, in]
  // gets each of them, and take(group) sees it before the next one.
  virtual void run_each(Queue&, void* made, const void* a, const void* b,
                        const std::int32_t* offsets, void* workspace,
                        const std::function<void(std::int64_t)>& take) const = 0;
};

// Names a piece of a step that consists of the same kernels whenever the key is the same.
struct WorkKey {
  int chunk = 0;    // which of the rank's stages
  int pass = 0;     // forward, backward ...
  int segment = 0;  // of the stage
  bool first_micro_batch = false;

  auto operator<=>(const WorkKey&) const = default;
};

// A line on what was found when a device was opened.
struct DeviceNote {
  std::string text;
  bool is_fault = false;  // wrong numbers that were switched off, or a library that is missing
};

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // "the CPU (avx512)", and what must be the same on all ranks of a run.
  virtual std::string name() const = 0;
  virtual std::string signature() const = 0;
  // What plans for this device are made for.
  virtual const Target& target() const = 0;

  // Zeroed memory, aligned to a page; null where there is none left. bytes > 0. The caller releases
  // it with the same size.
  std::byte* allocate(std::int64_t bytes);
  void release(std::byte* memory, std::int64_t bytes);
  // Bytes that are allocated now.
  std::int64_t allocated() const { return allocated_; }
  // Also memory of the host that queues copy from and to while others compute: pinned, aligned
  // to a page. What it holds is not defined. The host may touch it while no copy does.
  std::byte* allocate_host(std::int64_t bytes);
  void release_host(std::byte* memory, std::int64_t bytes);
  std::int64_t allocated_host() const { return allocated_host_; }

  // Bytes that the device has in all; 0 where that is not known.
  virtual std::int64_t memory_bytes() const { return 0; }
  // Of these, the bytes that this process can allocate now.
  virtual std::int64_t free_bytes() const { return memory_bytes(); }
  // Where in the machine it is plugged in ("0000:81:00.0"); empty where that is not known.
  virtual std::string address() const { return {}; }

  virtual Queue& queue(QueueRole role = QueueRole::compute) = 0;
  // Whether what is enqueued is ever run; if not, its memory cannot be read or written.
  virtual bool computes() const { return true; }

  // The device's library of collectives, loaded now; null where there is none, and then perhaps the
  // reason.
  virtual const CollectiveTable* collectives(std::string& /*problem*/) const { return nullptr; }
  // Asked in all waits for the device from now on, or, if null, nobody: then the host sleeps. It
  // must outlive them.
  virtual void set_wait_policy(WaitPolicy*) {}

  // What is enqueued between the two are the same kernels of the same sizes whenever the key is, as
  // long as the stages keep their shape; addresses may differ. Returns whether it has to be
  // enqueued: the recording device counts it from the second time on.
  virtual bool begin_once(const WorkKey&) { return true; }
  virtual void end_once() {}

  template <class T>
  const Kernels<T>& kernels() const {
    return *std::get<const Kernels<T>*>(kernels_);
  }
  const StateKernels& state_kernels() const { return *state_kernels_; }
  virtual std::shared_ptr<const LinearProduct> linear(DType compute, Product,
                                                      const LinearShape&) = 0;
  // With operands in bytes, and a result of type `compute`. Null: no library has such products.
  virtual std::shared_ptr<const Fp8Product> fp8_linear(DType /*compute*/, Product,
                                                       const LinearShape&, const Fp8Bytes&) {
    return nullptr;
  }
  // Throws where the device has no such products.
  virtual std::shared_ptr<const GroupedProduct> grouped(DType compute, Product,
                                                        const GroupedShape&);
  // The algorithms that a library uses for the products made so far. Empty where none computes.
  virtual LibraryChoices choices() const { return {}; }
  // Uses these from now on, for the products that they name, also for those that exist. They are of
  // the same device and library; throws Error if the library does not know one of them.
  virtual void take(const LibraryChoices&) {}
  // What a user should read before a run.
  virtual std::vector<DeviceNote> notes() const { return {}; }

  // Host access to device memory, through a pinned mirror that on the CPU is the memory itself.
  // write(): `fill` gets `bytes` of host memory whose contents it replaces in full; dst gets them
  // in the order of the compute queue. read(): `use` gets what the compute queue leaves in src;
  // waits for it. A device that computes nothing calls neither. Threads of a pool may call both at
  // once (checkpoints do), each for memory of its own; what `fill` or `use` throws passes through.
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
  // Where the memory of the device is the host's.
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
  return body(float{});  // nothing computes with integers
}

// The same for the dtype of arithmetic and statistics: double{} or float{}.
template <class Body>
auto with_accumulation_type(DType dtype, Body&& body) {
  return dtype == DType::f64 ? body(double{}) : body(float{});
}

}  // namespace trireme
