// Grouped products, with one weight per group. The group offsets lie in device memory and the host
// does not wait for them: the grid has a block for every tile that any offsets can produce, and
// each block finds its tile.
//
// Each element is bitwise equal to that of a separate product of its group.
#include "backend/gpu/kernels/block_prefix.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/product.h"
#include "backend/gpu/product_block.h"

namespace trireme::gpu {
namespace {

template <class T, class C>
struct Groups {
  C* c;
  const T *a, *b;
  const std::int32_t* offsets;  // first row of group g: offsets[g * stride]
  int groups, stride;
  std::int64_t rows, in, out;
  bool accumulate, in_packs;  // in_packs: a and b allow 16-byte accesses

  GPU_FN std::int64_t begin(int group) const {
    return offsets[static_cast<std::int64_t>(group) * stride];
  }
  // Number of rows of a group; group number `groups` holds the rows outside all groups.
  GPU_FN std::int64_t count(int group) const {
    return (group < groups ? begin(group + 1) : rows) - begin(group);
  }
  GPU_FN std::int64_t weight() const { return in * out; }
};

// A row tile of a group; without a group if there is no such tile.
struct GroupTile {
  int group, tile;
};

// Finds tile number `index` in the concatenation of all groups. All threads must call it.
template <class Block, class T, class C>
GPU_FN GroupTile find_tile(const Groups<T, C>& p, int index) {
  auto& found = shared_memory<GroupTile>();
  int before = 0;
  for (int first = 0; first <= p.groups && before <= index; first += Block::threads) {
    const int group = first + static_cast<int>(thread_index());
    const std::int64_t count = group <= p.groups ? p.count(group) : 0;
    const auto tiles = static_cast<int>((count + Block::rows - 1) / Block::rows);
    const Prefix prefix = block_prefix<Block::threads>(tiles);
    const int tile = index - before - prefix.before;
    if (tile >= 0 && tile < tiles) found = {group, tile};
    before += prefix.all;
  }
  if (before <= index) return {-1, 0};
  sync_block();
  return found;
}

// c = a b^T, or a b with b as stored: products of rows. Rows outside all groups become zero, since
// their product has no steps.
template <class T, class Block, class Order>
GPU_KERNEL(Block::threads)
grouped_rows_kernel(const Groups<T, T> p) {
  const GroupTile at = find_tile<Block>(p, static_cast<int>(block_index().x));
  if (at.group < 0) return;
  const bool forward = Order::b_transposed, exists = at.group < p.groups;
  const std::int64_t begin = p.begin(at.group), count = p.count(at.group);
  const std::int64_t n = forward ? p.out : p.in, k = forward ? p.in : p.out;
  T* const c = p.c + begin * n;
  const Operands<T, T> operands{c,
                                {p.a + begin * k, k, count, k, p.in_packs},
                                {p.b + at.group * p.weight(), p.in, p.out, p.in, p.in_packs},
                                nullptr,
                                count,
                                n,
                                exists ? k : 0,
                                p.accumulate ? c : nullptr};
  ProductBlock<T, T, Block, Order>(
      operands, {at.tile * Block::rows, static_cast<int>(block_index().y) * Block::columns})
      .run(count, n);
}

// c (+)= a^T b, the weight gradient of each group.
template <class T, class Block>
GPU_KERNEL(Block::threads)
grouped_weights_kernel(const Groups<T, float> p) {
  const auto group = static_cast<int>(block_index().y);
  const std::int64_t begin = p.begin(group), count = p.count(group);
  if (p.accumulate && count == 0) return;
  float* const c = p.c + group * p.weight();
  const Operands<T, float> operands{c,
                                    {p.a + begin * p.out, p.out, count, p.out, p.in_packs},
                                    {p.b + begin * p.in, p.in, count, p.in, p.in_packs},
                                    nullptr,
                                    p.out,
                                    p.in,
                                    count,
                                    p.accumulate ? c : nullptr};
  ProductBlock<T, float, Block, Stored<true, false>>(
      operands, tile_of_block<Block>(p.out, p.in, block_index().x))
      .run(p.out, p.in);
}

template <class Block, class Order, class T>
void launch_rows(Queue& queue, const Groups<T, T>& p) {
  // Every group, and the rows outside all groups, may end with a partial tile.
  const std::int64_t tiles = ceil_div(p.rows, std::int64_t{Block::rows}) + p.groups + 1;
  const std::int64_t n = Order::b_transposed ? p.out : p.in;
  launch(queue,
         {.blocks = Size{static_cast<unsigned>(tiles),
                         static_cast<unsigned>(ceil_div(n, std::int64_t{Block::columns}))},
          .threads = Block::threads,
          .shared_bytes = product_shared_bytes<T, Block, Order>},
         grouped_rows_kernel<T, Block, Order>, p);
}

constexpr std::int64_t enough_blocks = 64;

// Selected by sizes only; the choice does not affect results.
template <class Order, class T>
void run_rows(Queue& queue, const Groups<T, T>& p) {
  const std::int64_t even = p.rows / p.groups, n = Order::b_transposed ? p.out : p.in;
  if (even <= FlatTile::rows) {
    launch_rows<FlatTile, Order>(queue, p);
  } else if (even > SmallTile::rows && blocks_of<LargeTile>(p.rows, n) >= enough_blocks) {
    launch_rows<LargeTile, Order>(queue, p);
  } else {
    launch_rows<SmallTile, Order>(queue, p);
  }
}

template <class Block, class T>
void launch_weights(Queue& queue, const Groups<T, float>& p) {
  launch(queue,
         {.blocks = Size{static_cast<unsigned>(blocks_of<Block>(p.out, p.in)),
                         static_cast<unsigned>(p.groups)},
          .threads = Block::threads,
          .shared_bytes = product_shared_bytes<T, Block, Stored<true, false>>},
         grouped_weights_kernel<T, Block>, p);
}

template <class T>
void run_weights(Queue& queue, const Groups<T, float>& p) {
  if (p.out > SmallTile::rows && p.in > SmallTile::columns &&
      p.groups * blocks_of<LargeTile>(p.out, p.in) >= enough_blocks) {
    launch_weights<LargeTile>(queue, p);
  } else {
    launch_weights<SmallTile>(queue, p);
  }
}

template <class T>
class OwnGrouped final : public GroupedProduct {
 public:
  OwnGrouped(Product product, const GroupedShape& shape) : product_(product), shape_(shape) {}

  void run(Queue& queue, void* dst, const void* a, const void* b, const std::int32_t* offsets,
           bool accumulate, void*) const override {
    const auto groups = static_cast<int>(shape_.groups), stride = static_cast<int>(shape_.blocks);
    if (product_ == Product::weight_grad) {
      return run_weights(
          queue, operands(static_cast<float*>(dst), a, b, offsets, groups, stride, accumulate));
    }
    const Groups<T, T> p =
        operands(static_cast<T*>(dst), a, b, offsets, groups, stride, accumulate);
    if (product_ == Product::forward) {
      run_rows<Stored<false, true>>(queue, p);
    } else {
      run_rows<Stored<false, false>>(queue, p);
    }
  }

  // Visits all groups, since the host does not know which have rows; empty ones give zeros.
  void run_each(Queue& queue, void* made, const void* a, const void* b, const std::int32_t* offsets,
                void*, const std::function<void(std::int64_t)>& take) const override {
    for (std::int64_t g = 0; g < shape_.groups * shape_.blocks; ++g) {
      run_weights(queue, operands(static_cast<float*>(made), a, b, offsets + g, 1, 1, false));
      take(g / shape_.blocks);
    }
  }

 private:
  template <class C>
  Groups<T, C> operands(C* c, const void* a, const void* b, const std::int32_t* offsets, int groups,
                        int stride, bool accumulate) const {
    const T* const left = static_cast<const T*>(a);
    const T* const right = static_cast<const T*>(b);
    const auto& [rows, in, out, all_groups, blocks] = shape_;
    return {c,
            left,
            right,
            offsets,
            groups,
            stride,
            rows,
            in,
            out,
            accumulate,
            lies_in_packs(left, in, out) && lies_in_packs(right, out, in)};
  }

  Product product_;
  GroupedShape shape_;
};

}  // namespace

std::shared_ptr<const GroupedProduct> own_grouped(DType compute, Product product,
                                                  const GroupedShape& shape) {
  switch (compute) {
    case DType::bf16:
      return std::make_shared<OwnGrouped<bf16>>(product, shape);
    case DType::f16:
      return std::make_shared<OwnGrouped<f16>>(product, shape);
    default:
      return std::make_shared<OwnGrouped<float>>(product, shape);
  }
}

}  // namespace trireme::gpu
