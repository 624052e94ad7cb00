// Scales never depend on which other rows are present: an expert's rows of a micro-batch, or of an
// exact block (GroupedShape::blocks), are multiplied together in every layout.
#include "graph/ops/fp8_grouped.h"

#include "backend/cpu/workspace.h"
#include "graph/ops/fp8_operands.h"

namespace trireme::ops {
namespace {

// One scale for all rows of a group, or one per block along the summed dimension.
Fp8Tiles tiles_of_groups(const Fp8Products& fp8, std::int64_t cols, const GroupedShape& shape,
                         Fp8Type type, bool over_rows) {
  Fp8Tiles tiles{shape.rows,
                 cols,
                 shape.rows,
                 shape.rows,
                 cols,
                 type,
                 fp8.power_of_2_scales,
                 nullptr,
                 shape.groups * shape.blocks};
  if (fp8.recipe == Fp8Recipe::blockwise) {
    tiles.tile_rows = over_rows ? fp8_block : 1;
    tiles.tile_cols = over_rows ? 1 : fp8_block;
  }
  return tiles;
}

Fp8Operands operands_of(DeviceKind device, const Graph& g, Product product,
                        const GroupedShape& shape) {
  const Fp8Products& fp8 = g.fp8();
  const bool forward = product == Product::forward, sums = product == Product::weight_grad;
  const Fp8Tiles a = tiles_of_groups(fp8, forward ? shape.in : shape.out, shape,
                                     forward ? fp8.forward : fp8.backward, sums);
  const Fp8Tiles b =
      sums ? tiles_of_groups(fp8, shape.in, shape, fp8.forward, true)
           : tiles_of_weights(fp8, {shape.groups * shape.out, shape.in}, shape.groups);
  return {device, g, a, b, forward ? shape.out : shape.in, !sums};
}

template <class T>
class Fp8Grouped final : public GroupedProduct {
 public:
  Fp8Grouped(Device& device, const Graph& g, Product product, const GroupedShape& shape)
      : device_(device),
        sums_(product == Product::weight_grad),
        operands_(operands_of(device.target().device, g, product, shape)),
        product_(device.grouped(operands_.type, product, shape)) {}

  void run(Queue& queue, void* dst, const void* a, const void* b, const std::int32_t* offsets,
           bool accumulate, void* workspace) const override {
    TRIREME_CHECK(sums_ || !accumulate);
    const Fp8Operands o = operands_with(offsets);
    const Fp8Rounded<T> rounded = round(queue, o, a, b, workspace);
    product_->run(queue, o.stores ? rounded.made() : dst, rounded.a(), rounded.b(), offsets,
                  accumulate, rounded.rest());
    if (o.stores) rounded.store(static_cast<T*>(dst), nullptr);
  }

  void run_each(Queue& queue, void* made, const void* a, const void* b, const std::int32_t* offsets,
                void* workspace, const std::function<void(std::int64_t)>& take) const override {
    const Fp8Operands o = operands_with(offsets);
    const Fp8Rounded<T> rounded = round(queue, o, a, b, workspace);
    product_->run_each(queue, made, rounded.a(), rounded.b(), offsets, rounded.rest(), take);
  }

 private:
  Fp8Operands operands_with(const std::int32_t* offsets) const {
    Fp8Operands o = operands_;
    o.a.offsets = offsets;
    if (sums_) o.b.offsets = offsets;
    return o;
  }
  Fp8Rounded<T> round(Queue& queue, const Fp8Operands& o, const void* a, const void* b,
                      void* workspace) const {
    const Fp8Rounded<T> rounded(device_, queue, o, static_cast<std::byte*>(workspace));
    rounded.find_largest(static_cast<const T*>(a), static_cast<const T*>(b));
    rounded.round(static_cast<const T*>(a), static_cast<const T*>(b));
    return rounded;
  }

  const Device& device_;
  bool sums_;
  Fp8Operands operands_;
  std::shared_ptr<const GroupedProduct> product_;
};

}  // namespace

std::shared_ptr<const GroupedProduct> make_grouped(Device& device, const Graph& g, Product product,
                                                   const GroupedShape& shape) {
  if (!is_fp8(g)) return device.grouped(g.compute(), product, shape);
  return with_compute_type(g.compute(), [&]<class T>(T) -> std::shared_ptr<const GroupedProduct> {
    return std::make_shared<Fp8Grouped<T>>(device, g, product, shape);
  });
}

std::int64_t grouped_workspace(const Target& target, const Graph& g, Product product,
                               const GroupedShape& shape) {
  const auto plain = [&](DType type) {  // GPU kernels need no scratch
    const bool on_cpu = target.device == DeviceKind::cpu;
    return on_cpu ? cpu::grouped_workspace(target, type, product, shape) : 0;
  };
  if (!is_fp8(g)) return plain(g.compute());
  const Fp8Operands o = operands_of(target.device, g, product, shape);
  return o.rest + plain(o.type);
}

}  // namespace trireme::ops
