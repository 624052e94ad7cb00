// Kernel tables whose entries record their names.
#include "backend/recording/device.h"

#include <fmt/format.h>

#include <string_view>
#include <type_traits>
#include <utility>

#include "backend/entry_name.h"

namespace trireme {
namespace {

using Kind = RecordedWork::Kind;

class RecordingQueue final : public Queue {
 public:
  explicit RecordingQueue(Record& record) : record_(record) {}

  void add(Kind kind, const char* name, std::int64_t bytes = 0) {
    record_.add({.kind = kind, .name = name, .bytes = static_cast<double>(bytes)});
  }
  void add_product(const char* name, const RecordedProductShape& shape) {
    record_.add({.kind = Kind::product, .name = name, .product = shape});
  }
  void copy(void*, const void*, std::int64_t bytes) override { add(Kind::copy, "copy", bytes); }
  void fill(void*, std::uint8_t, std::int64_t bytes) override { add(Kind::fill, "fill", bytes); }
  void record(Event&) override {}
  void wait(const Event&) override {}
  void synchronize() override {}

 private:
  Record& record_;
};

// Selects the arguments whose product is the element count: the first count, or rows and columns.
struct Counts {
  int first = 0, number = 1;
};

constexpr Counts counts_of(std::string_view kernel) {
  if (kernel == "normalize_matrix" || kernel == "scale_matrix") return {0, 2};
  if (kernel == "state copy_rows") return {2, 2};     // skips the strides
  if (kernel == "state reduce_parts") return {1, 1};  // the same
  if (kernel == "fp8_inverse_scales") return {0, 0};  // negligible
  return {};
}

// Estimates the bytes a kernel moves from its arguments: every array is read, and written too
// unless it is const. Ops know their own traffic better and override this.
class MovedBytes {
 public:
  explicit MovedBytes(Counts counts) : counts_(counts) {}

  void see(std::int64_t count) {
    const int number = seen_++ - counts_.first;
    if (number >= 0 && number < counts_.number) elements_ *= count;
  }
  void see(DType dtype) { element_ = size_of(dtype); }
  // The next array has one number per tile, which is negligible.
  void see(const Fp8Tiles& tiles) {
    see(tiles.rows * tiles.cols);
    are_few_ = true;
  }
  template <class T>
  void see(T* array) {
    using Element = std::remove_const_t<T>;
    if (!array || std::exchange(are_few_, false)) return;
    const int passes = std::is_const_v<T> ? 1 : 2;
    if constexpr (std::is_void_v<Element>) {
      untyped_ += passes;
    } else if constexpr (std::is_arithmetic_v<Element> || std::is_same_v<Element, bf16> ||
                         std::is_same_v<Element, f16>) {
      typed_ += passes * static_cast<std::int64_t>(sizeof(Element));
    }
  }
  template <class Other>
  requires(!std::is_pointer_v<Other>) void see(const Other&) {}

  std::int64_t bytes() const { return seen_ == 0 ? 0 : elements_ * (typed_ + untyped_ * element_); }

 private:
  Counts counts_;
  int seen_ = 0;
  std::int64_t elements_ = 1, typed_ = 0, untyped_ = 0, element_ = 1;
  bool are_few_ = false;
};

template <auto entry, EntryName name>
struct Recorded;
template <class Table, class... Args, void (*Table::*entry)(Queue&, Args...), EntryName name>
struct Recorded<entry, name> {
  static void run(Queue& queue, Args... args) {
    MovedBytes moved(counts_of(name.characters));
    (moved.see(args), ...);
    static_cast<RecordingQueue&>(queue).add(Kind::kernel, name.characters, moved.bytes());
  }
};

template <class T>
const Kernels<T>& recording_kernels() {
  static const Kernels<T> table = [] {
    Kernels<T> filled{};
#define TRIREME_RECORD(entry) filled.entry = Recorded<&Kernels<T>::entry, #entry>::run;
    TRIREME_KERNELS(TRIREME_RECORD)
#undef TRIREME_RECORD
    return filled;
  }();
  return table;
}

const StateKernels& recording_state_kernels() {
  static const StateKernels table = [] {
    StateKernels filled{};
#define TRIREME_RECORD(entry) filled.entry = Recorded<&StateKernels::entry, "state " #entry>::run;
    TRIREME_STATE_KERNELS(TRIREME_RECORD)
#undef TRIREME_RECORD
    return filled;
  }();
  return table;
}

RecordedProductShape shape_of(Product product, std::int64_t rows, std::int64_t in,
                              std::int64_t out) {
  if (product == Product::forward) return {rows, out, in};
  return product == Product::input_grad ? RecordedProductShape{rows, in, out}
                                        : RecordedProductShape{out, in, rows};
}

class RecordedProduct final : public LinearProduct {
 public:
  RecordedProduct(const Target& target, Product product, const LinearShape& shape)
      : adds_(target.device != DeviceKind::cpu),
        product_(product),
        shape_(shape_of(product, shape.rows, shape.in, shape.out)) {}

  void run(Queue& queue, void*, const void*, const void*, const void*, bool, void*) const override {
    static_cast<RecordingQueue&>(queue).add_product(name_of(product_), shape_);
  }
  bool run_onto(Queue& queue, void*, const void*, const void*, const void*, const void*,
                void*) const override {
    if (adds_) static_cast<RecordingQueue&>(queue).add_product(name_of(product_), shape_);
    return adds_;
  }

 private:
  bool adds_;
  Product product_;
  RecordedProductShape shape_;
};

class RecordedGroups final : public GroupedProduct {
 public:
  RecordedGroups(Product product, const GroupedShape& shape)
      : product_(product),
        shape_(shape),
        each_(shape_of(product, (shape.rows + shape.groups - 1) / shape.groups, shape.in,
                       shape.out)) {
    each_.groups = static_cast<std::int32_t>(shape.groups);
  }

  void run(Queue& queue, void*, const void*, const void*, const std::int32_t*, bool,
           void*) const override {
    static_cast<RecordingQueue&>(queue).add_product(name_of_grouped(product_), each_);
  }
  void run_each(Queue& queue, void*, const void*, const void*, const std::int32_t*, void*,
                const std::function<void(std::int64_t)>& take) const override {
    static_cast<RecordingQueue&>(queue).add_product(name_of_grouped(product_), each_);
    for (std::int64_t i = 0; i < shape_.groups * shape_.blocks; ++i) take(i / shape_.blocks);
  }

 private:
  Product product_;
  GroupedShape shape_;
  RecordedProductShape each_;
};

constexpr std::int64_t page = 4096;

}  // namespace

RecordingDevice::RecordingDevice(const Target& target)
    : Device({&recording_kernels<float>(), &recording_kernels<bf16>(), &recording_kernels<f16>(),
              &recording_kernels<double>()},
             recording_state_kernels()),
      target_(target),
      queue_(std::make_unique<RecordingQueue>(record_)) {}

std::string RecordingDevice::name() const {
  if (target_.device != DeviceKind::cpu)
    return fmt::format("a recording for a GPU ({})", name_of(target_.device));
  return fmt::format("a recording for the CPU ({})", cpu::name_of(target_.isa));
}

std::shared_ptr<const LinearProduct> RecordingDevice::linear(DType, Product product,
                                                             const LinearShape& shape) {
  return std::make_shared<RecordedProduct>(target_, product, shape);
}

std::shared_ptr<const GroupedProduct> RecordingDevice::grouped(DType, Product product,
                                                               const GroupedShape& shape) {
  return std::make_shared<RecordedGroups>(product, shape);
}

void RecordingDevice::write(void*, std::int64_t bytes, const std::function<void(std::byte*)>&) {
  static_cast<RecordingQueue&>(*queue_).add(Kind::write, "write", bytes);
}

void RecordingDevice::read(const void*, std::int64_t bytes,
                           const std::function<void(const std::byte*)>&) {
  static_cast<RecordingQueue&>(*queue_).add(Kind::read, "read", bytes);
}

std::byte* RecordingDevice::do_allocate(std::int64_t bytes) {
  const std::int64_t address = next_address_;
  next_address_ += (bytes + page - 1) / page * page;
  return reinterpret_cast<std::byte*>(address);  // NOLINT: nobody may use it
}

}  // namespace trireme
