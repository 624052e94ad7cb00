// System memory, with the kernels and products of the instruction set in use.
#include "backend/cpu/device.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>

#include "backend/cpu/gemm.h"
#include "backend/cpu/grouped.h"
#include "backend/cpu/isa.h"
#include "base/held_memory.h"
#include "base/portable_math.h"

namespace trireme::cpu {
namespace {

class CpuQueue final : public Queue {
 public:
  void copy(void* dst, const void* src, std::int64_t bytes) override {
    std::memcpy(dst, src, static_cast<std::size_t>(bytes));
  }
  void fill(void* dst, std::uint8_t byte, std::int64_t bytes) override {
    std::memset(dst, byte, static_cast<std::size_t>(bytes));
  }
  void record(Event&) override {}
  void wait(const Event&) override {}
  void synchronize() override {}
};

class CpuDevice final : public Device {
 public:
  CpuDevice()
      : Device({&cpu::kernels<float>(), &cpu::kernels<bf16>(), &cpu::kernels<f16>(),
                &cpu::kernels<double>()},
               cpu::state_kernels()),
        target_(this_machine()),
        numbers_(math::is_portable() ? "portable" : name_of(target_.isa)) {}

  std::string name() const override { return fmt::format("the CPU ({})", numbers_); }
  std::string signature() const override { return fmt::format("cpu {}", numbers_); }
  const Target& target() const override { return target_; }
  Queue& queue(QueueRole) override { return queue_; }

  std::shared_ptr<const LinearProduct> linear(DType compute, Product product,
                                              const LinearShape& shape) override {
    return with_compute_type(compute, [&]<class T>(T) -> std::shared_ptr<const LinearProduct> {
      return shared_linear<T>(product, shape);
    });
  }
  std::shared_ptr<const LinearProduct> leaf_linear(DType compute, Product product,
                                                   const LinearShape& shape, bool sums) override {
    return sums ? make_sums(compute, product, shape) : linear(compute, product, shape);
  }

  std::shared_ptr<const GroupedProduct> grouped(DType compute, Product product,
                                                const GroupedShape& shape) override {
    return with_compute_type(compute,
                             [&]<class T>(T) { return shared_grouped<T>(product, shape); });
  }

  void write(void* dst, std::int64_t, const std::function<void(std::byte* host)>& fill) override {
    fill(static_cast<std::byte*>(dst));
  }
  void read(const void* src, std::int64_t,
            const std::function<void(const std::byte* host)>& use) override {
    use(static_cast<const std::byte*>(src));
  }

 private:
  std::byte* do_allocate(std::int64_t bytes) override {
    void* memory = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    // Huge pages avoid most TLB misses; failure is harmless.
    ::madvise(memory, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    return static_cast<std::byte*>(memory);
  }
  void do_release(std::byte* memory, std::int64_t bytes) override {
    const auto size = static_cast<std::size_t>(bytes);
    free_when_released({memory, size}, [=] { ::munmap(memory, size); });
  }

  Target target_;
  std::string numbers_;  // what its results depend on
  CpuQueue queue_;
};

}  // namespace

// Devices must outlive all blocks of their memory.
Device& device() {
  if (math::is_portable()) {
    static CpuDevice* const portable = new CpuDevice;
    return *portable;
  }
  static CpuDevice* const device = new CpuDevice;
  return *device;
}

Queue& queue() {
  return device().queue();
}

}  // namespace trireme::cpu
