// Addition with dropout, scaling, soft caps, the cast of master weights, and the
// search for non-finite values.
#include "backend/gpu/kernels/dropout.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/kernels/tangent.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

// y = a + b.
template <class T>
GPU_KERNEL(256)
add_kernel(T* y, const T* a, const T* b, std::int64_t count, bool aligned) {
  for_eights(count, aligned, [=](const Columns& at) {
    store(y, at, each([](float p, float q) { return p + q; }, load(a, at), load(b, at)));
  });
}

// y = a + dropout(b), or dropout(b) if a is null. One block per row.
template <class T>
GPU_KERNEL(128)
add_dropped_kernel(T* y, const T* a, const T* b, std::int64_t cols, bool aligned,
                   const DropoutSite site) {
  const std::int64_t row = block_index().x, offset = row * cols;
  HiddenMask<128> mask(site);
  mask.set_row(row);
  const std::int64_t before = HiddenMask<128>::columns_before(site);
  for (std::int64_t first = -before; first < cols; first += 8 * 128) {
    const Columns at = columns_at(first + 8 * thread_index(), cols, aligned);
    Eight sum = mask.apply(load(b + offset, at), at.first);
    if (a) sum = each([](float p, float q) { return p + q; }, load(a + offset, at), sum);
    store(y + offset, at, sum);
  }
}

template <class T>
void add(Queue& queue, T* y, const T* a, const T* b, std::int64_t rows, std::int64_t cols,
         const Dropout& dropout) {
  const std::int64_t count = rows * cols;
  if (dropout.probability > 0) {
    const DropoutSite site(dropout);
    launch(queue, one_block_each(rows, 128), add_dropped_kernel<T>, y, a, b, cols,
           site.is_aligned() && rows_are_aligned(cols, y, a, b), site);
  } else if (a) {
    launch(queue, over((count + 7) / 8), add_kernel<T>, y, a, b, count,
           rows_are_aligned(8, y, a, b));
  } else if (y != b && count > 0) {
    queue.copy(y, b, count * static_cast<std::int64_t>(sizeof(T)));
  }
}

// y = factor * x.
template <class T>
GPU_KERNEL(256)
scale_kernel(T* y, const T* x, std::int64_t count, float factor, bool aligned) {
  for_eights(count, aligned, [=](const Columns& at) {
    store(y, at, each([=](float v) { return factor * v; }, load(x, at)));
  });
}

template <class T>
void scale(Queue& queue, T* y, const T* x, std::int64_t count, double factor) {
  launch(queue, over((count + 7) / 8), scale_kernel<T>, y, x, count, static_cast<float>(factor),
         rows_are_aligned(8, y, x));
}

template <class T>
GPU_KERNEL(256)
soft_cap_kernel(T* y, const T* x, std::int64_t count, float cap, float part, bool aligned) {
  for_eights(count, aligned, [=](const Columns& at) {
    store(y, at, each([=](float v) { return cap * tangent(v * part); }, load(x, at)));
  });
}

template <class T>
GPU_KERNEL(256)
soft_cap_grad_kernel(T* dx, const T* dy, const T* x, std::int64_t count, float part, bool aligned) {
  for_eights(count, aligned, [=](const Columns& at) {
    const auto slope = [=](float g, float v) {
      const float t = tangent(v * part);
      return g * (1.0f - t * t);
    };
    store(dx, at, each(slope, load(dy, at), load(x, at)));
  });
}

template <class T>
void soft_cap(Queue& queue, T* y, const T* x, std::int64_t count, double cap) {
  launch(queue, over((count + 7) / 8), soft_cap_kernel<T>, y, x, count, static_cast<float>(cap),
         static_cast<float>(1 / cap), rows_are_aligned(8, y, x));
}

template <class T>
void soft_cap_grad(Queue& queue, T* dx, const T* dy, const T* x, std::int64_t count, double cap) {
  launch(queue, over((count + 7) / 8), soft_cap_grad_kernel<T>, dx, dy, x, count,
         static_cast<float>(1 / cap), rows_are_aligned(8, dx, dy, x));
}

template <class T>
GPU_KERNEL(256)
cast_kernel(T* dst, const float* src, std::int64_t count, bool aligned) {
  for_eights(count, aligned, [=](const Columns& at) { store(dst, at, load(src, at)); });
}

template <class T>
void cast_from_master(Queue& queue, T* dst, const float* src, std::int64_t count) {
  launch(queue, over((count + 7) / 8), cast_kernel<T>, dst, src, count,
         rows_are_aligned(8, dst, src));
}

// index starts as -1, the largest unsigned number.
template <class T>
GPU_KERNEL(256)
first_not_finite_kernel(std::int64_t* index, const T* x, std::int64_t count, bool aligned) {
  for_eights(count, aligned, [=](const Columns& at) {
    const Eight values = load(x, at);
    for (int i = 0; i < 8; ++i) {
      if (is_finite(values.v[i])) continue;
      atomic_min(reinterpret_cast<std::uint64_t*>(index), static_cast<std::uint64_t>(at.first + i));
      break;
    }
  });
}

template <class T>
void first_not_finite(Queue& queue, std::int64_t* index, const T* x, std::int64_t count) {
  queue.fill(index, 0xff, sizeof *index);
  launch(queue, over((count + 7) / 8), first_not_finite_kernel<T>, index, x, count,
         rows_are_aligned(8, x));
}

}  // namespace

template <class T>
void set_elementwise(Kernels<T>& table) {
  table.add = add<T>;
  table.scale = scale<T>;
  table.soft_cap = soft_cap<T>;
  table.soft_cap_grad = soft_cap_grad<T>;
  table.cast_from_master = cast_from_master<T>;
  table.first_not_finite = first_not_finite<T>;
}
TRIREME_GPU_INSTANTIATE(set_elementwise);

}  // namespace trireme::gpu
