// Grouped products. The number of rows of a group is known only when the product runs. Most engines
// take any number; oneDNN's primitives for AVX-512 are created for a fixed one, so groups are split
// into pieces of powers of two there.
#include "backend/cpu/grouped.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "backend/cpu/gemm_amx.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/workspace.h"
#include "base/error.h"
#include "base/portable_math.h"

namespace trireme::cpu {
namespace {

constexpr int largest_piece = 11;  // 2048 rows

bool takes_any_rows(const Target& target, DType compute) {
  return compute == DType::f64 || target.isa == Isa::avx2 ||
         (compute == DType::bf16 && target.isa == Isa::amx);
}

// Index of the largest piece for a product of at most this many rows.
int top_piece(std::int64_t rows) {
  return std::min(largest_piece,
                  static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows))) - 1);
}

}  // namespace

template <class T>
struct Grouped<T>::Impl {
  Product product;
  GroupedShape shape;
  bool any_rows;
  std::int64_t workspace_bytes;
  mutable std::mutex mutex;
  mutable std::array<std::shared_ptr<const Linear<T>>, largest_piece + 1> pieces;

  const Linear<T>& piece(int size) const {
    const std::lock_guard lock(mutex);
    std::shared_ptr<const Linear<T>>& made = pieces[size];
    if (!made) made = shared_linear<T>(product, {std::int64_t{1} << size, shape.in, shape.out});
    return *made;
  }

  // Processes `rows` rows of one group.
  void run_group(void* dst, const T* a, const T* b, std::int64_t rows, bool accumulate,
                 void* workspace) const {
    if (any_rows) {
      const Linear<T> linear(product, {rows, shape.in, shape.out});
      TRIREME_CHECK(linear.workspace_bytes() <= workspace_bytes);
      linear.run(dst, a, b, nullptr, accumulate, workspace);
      return;
    }
    const bool sums = product == Product::weight_grad;
    const std::int64_t a_cols = product == Product::forward ? shape.in : shape.out;
    const std::int64_t dst_cols = product == Product::forward ? shape.out : shape.in;
    while (rows > 0) {
      const int size = top_piece(rows);
      const std::int64_t count = std::int64_t{1} << size;
      piece(size).run(dst, a, b, nullptr, accumulate, workspace);
      rows -= count;
      a += count * a_cols;
      if (sums) {
        b += count * shape.in;
        accumulate = true;
      } else {
        dst = static_cast<T*>(dst) + count * dst_cols;
      }
    }
  }
};

template <class T>
Grouped<T>::Grouped(Product product, const GroupedShape& shape) : impl_(new Impl) {
  impl_->product = product;
  impl_->shape = shape;
  impl_->any_rows = takes_any_rows(this_machine(), dtype_of<T>);
  impl_->workspace_bytes = grouped_workspace(this_machine(), dtype_of<T>, product, shape);
}

template <class T>
Grouped<T>::~Grouped() = default;

template <class T>
void Grouped<T>::run(Queue&, void* dst, const void* a, const void* b, const std::int32_t* offsets,
                     bool accumulate, void* workspace) const {
  const auto& [rows, in, out, weights, blocks] = impl_->shape;
  const std::int64_t groups = weights * blocks;
  const bool sums = impl_->product == Product::weight_grad;
  const std::int64_t a_cols = impl_->product == Product::forward ? in : out;
  const std::int64_t dst_cols = impl_->product == Product::forward ? out : in;
  TRIREME_CHECK(offsets[groups] <= rows && (!sums || blocks == 1));
  const T* const from = static_cast<const T*>(a);
  const T* const other = static_cast<const T*>(b);
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t first = offsets[g], count = offsets[g + 1] - first;
    if (sums) {
      Acc<T>* const to = static_cast<Acc<T>*>(dst) + g * out * in;
      if (count > 0) {
        impl_->run_group(to, from + first * out, other + first * in, count, accumulate, workspace);
      } else if (!accumulate) {
        std::memset(to, 0, static_cast<std::size_t>(out * in) * sizeof(Acc<T>));
      }
    } else if (count > 0) {
      impl_->run_group(static_cast<T*>(dst) + first * dst_cols, from + first * a_cols,
                       other + g / blocks * out * in, count, accumulate, workspace);
    }
  }
  if (sums || accumulate) return;
  const std::int64_t rest = rows - offsets[groups];
  std::memset(static_cast<void*>(static_cast<T*>(dst) + offsets[groups] * dst_cols), 0,
              static_cast<std::size_t>(rest * dst_cols) * sizeof(T));
}

template <class T>
void Grouped<T>::run_each(Queue&, void* made, const void* a, const void* b,
                          const std::int32_t* offsets, void* workspace,
                          const std::function<void(std::int64_t)>& take) const {
  const auto& [rows, in, out, weights, blocks] = impl_->shape;
  TRIREME_CHECK(offsets[weights * blocks] <= rows && impl_->product == Product::weight_grad);
  for (std::int64_t g = 0; g < weights * blocks; ++g) {
    const std::int64_t first = offsets[g], count = offsets[g + 1] - first;
    if (count == 0) continue;
    impl_->run_group(made, static_cast<const T*>(a) + first * out,
                     static_cast<const T*>(b) + first * in, count, false, workspace);
    take(g / blocks);
  }
}

template <class T>
std::shared_ptr<const GroupedProduct> shared_grouped(Product product, const GroupedShape& shape) {
  static std::mutex mutex;
  static std::map<std::tuple<bool, Product, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                             std::int64_t>,
                  std::weak_ptr<const GroupedProduct>>
      made;
  const std::scoped_lock lock(mutex);
  auto& known = made[{math::is_portable(), product, shape.rows, shape.in, shape.out, shape.groups,
                      shape.blocks}];
  std::shared_ptr<const GroupedProduct> grouped = known.lock();
  if (!grouped) known = grouped = std::make_shared<const Grouped<T>>(product, shape);
  return grouped;
}

// The maximum over all row counts, as a group may have any number of the rows.
std::int64_t grouped_workspace(const Target& target, DType compute, Product product,
                               const GroupedShape& s) {
  if (compute == DType::f64) return 0;
  if (target.isa == Isa::avx2)
    return linear_workspace(target, compute, product, {s.rows, s.in, s.out});
  if (takes_any_rows(target, compute)) {
    return AmxGemm::most_workspace(problem_of(product, {s.rows, s.in, s.out}),
                                   product == Product::weight_grad);
  }
  std::int64_t most = 0;
  for (int size = 0; size <= top_piece(s.rows); ++size) {
    most = std::max(
        most, linear_workspace(target, compute, product, {std::int64_t{1} << size, s.in, s.out}));
  }
  return most;
}

template class Grouped<float>;
template class Grouped<bf16>;
template class Grouped<f16>;
template class Grouped<double>;
template std::shared_ptr<const GroupedProduct> shared_grouped<float>(Product, const GroupedShape&);
template std::shared_ptr<const GroupedProduct> shared_grouped<bf16>(Product, const GroupedShape&);
template std::shared_ptr<const GroupedProduct> shared_grouped<f16>(Product, const GroupedShape&);
template std::shared_ptr<const GroupedProduct> shared_grouped<double>(Product, const GroupedShape&);

}  // namespace trireme::cpu
