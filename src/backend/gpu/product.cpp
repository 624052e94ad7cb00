// The built-in kernel for products of linear layers.
#include "backend/gpu/product.h"

#include "backend/gpu/launch.h"
#include "backend/gpu/product_block.h"

namespace trireme::gpu {
namespace {

template <class T, class C, class Block, class Order>
GPU_KERNEL(Block::threads)
product_kernel(const Operands<T, C> operands) {
  ProductBlock<T, C, Block, Order>(operands,
                                   tile_of_block<Block>(operands.m, operands.n, block_index().x))
      .run(operands.m, operands.n);
}

template <class Order, class Block, class T, class C>
void launch_product(Queue& queue, const Operands<T, C>& operands) {
  launch(queue,
         {.blocks = Size{static_cast<unsigned>(blocks_of<Block>(operands.m, operands.n))},
          .threads = Block::threads,
          .shared_bytes = product_shared_bytes<T, Block, Order>},
         product_kernel<T, C, Block, Order>, operands);
}

// Selected by sizes only; the choice does not affect results.
template <class Order, class T, class C>
void run_product(Queue& queue, const Operands<T, C>& p) {
  constexpr std::int64_t enough_blocks = 64;
  if (p.m <= FlatTile::rows) {
    launch_product<Order, FlatTile>(queue, p);
  } else if (blocks_of<LargeTile>(p.m, p.n) >= enough_blocks) {
    launch_product<Order, LargeTile>(queue, p);
  } else {
    launch_product<Order, SmallTile>(queue, p);
  }
}

template <class T>
Matrix<T> matrix(const void* data, std::int64_t rows, std::int64_t columns) {
  const T* const elements = static_cast<const T*>(data);
  return {elements, columns, rows, columns, lies_in_packs(elements, columns, columns)};
}

// C: the type of forward products and input gradients; weight gradients are float.
template <class T, class C>
class OwnLinear final : public LinearProduct {
 public:
  OwnLinear(Product product, const LinearShape& shape) : product_(product), shape_(shape) {}

  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void*) const override {
    const auto& [rows, in, out] = shape_;
    switch (product_) {
      case Product::forward:
        return forward(queue, dst, accumulate ? dst : nullptr, a, b, bias);
      case Product::input_grad: {
        C* const dx = static_cast<C*>(dst);
        return run_product<Stored<false, false>>(
            queue, Operands<T, C>{dx, matrix<T>(a, rows, out), matrix<T>(b, out, in), nullptr, rows,
                                  in, out, accumulate ? dx : nullptr});
      }
      case Product::weight_grad: {
        auto* const dweight = static_cast<float*>(dst);
        return run_product<Stored<true, false>>(
            queue, Operands<T, float>{dweight, matrix<T>(a, rows, out), matrix<T>(b, rows, in),
                                      nullptr, out, in, rows, accumulate ? dweight : nullptr});
      }
    }
  }
  bool run_onto(Queue& queue, void* dst, const void* addend, const void* a, const void* b,
                const void* bias, void*) const override {
    forward(queue, dst, addend, a, b, bias);
    return true;
  }

 private:
  void forward(Queue& queue, void* dst, const void* addend, const void* a, const void* b,
               const void* bias) const {
    const auto& [rows, in, out] = shape_;
    run_product<Stored<false, true>>(
        queue,
        Operands<T, C>{static_cast<C*>(dst), matrix<T>(a, rows, in), matrix<T>(b, out, in),
                       static_cast<const T*>(bias), rows, out, in, static_cast<const C*>(addend)});
  }

  Product product_;
  LinearShape shape_;
};

}  // namespace

template <class T>
void multiply_to_float(Queue& queue, float* c, const T* a, const T* b, std::int64_t m,
                       std::int64_t n, std::int64_t k) {
  run_product<Stored<false, true>>(
      queue,
      Operands<T, float>{c, matrix<T>(a, m, k), matrix<T>(b, n, k), nullptr, m, n, k, nullptr});
}
template void multiply_to_float(Queue&, float*, const float*, const float*, std::int64_t,
                                std::int64_t, std::int64_t);
template void multiply_to_float(Queue&, float*, const bf16*, const bf16*, std::int64_t,
                                std::int64_t, std::int64_t);
template void multiply_to_float(Queue&, float*, const f16*, const f16*, std::int64_t, std::int64_t,
                                std::int64_t);

std::shared_ptr<const LinearProduct> own_linear(DType compute, Product product,
                                                const LinearShape& shape) {
  switch (compute) {
    case DType::bf16:
      return std::make_shared<OwnLinear<bf16, bf16>>(product, shape);
    case DType::f16:
      return std::make_shared<OwnLinear<f16, f16>>(product, shape);
    default:
      return std::make_shared<OwnLinear<float, float>>(product, shape);
  }
}

std::shared_ptr<const LinearProduct> own_sums(DType compute, Product product,
                                              const LinearShape& shape) {
  switch (compute) {
    case DType::bf16:
      return std::make_shared<OwnLinear<bf16, float>>(product, shape);
    case DType::f16:
      return std::make_shared<OwnLinear<f16, float>>(product, shape);
    default:
      return std::make_shared<OwnLinear<float, float>>(product, shape);
  }
}

}  // namespace trireme::gpu
