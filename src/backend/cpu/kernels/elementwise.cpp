// Residual addition with dropout, scaling, soft caps, the cast of master weights, and the
// search for non-finite values.
#include "backend/cpu/kernels/combine_chunks.h"
#include "backend/cpu/kernels/math.h"
#include "backend/cpu/kernels/residual.h"
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
void add(T* y, const T* a, const T* b, std::int64_t rows, std::int64_t cols,
         const Dropout& dropout) {
  if (is_active(dropout)) {
    constexpr double ns = (3 * sizeof(T) + 4) * byte_ns;
    parallel_pieces(rows, ns * static_cast<double>(cols),
                    [&](std::int64_t begin, std::int64_t end) {
                      HiddenDropout<Acc<T>> mask(dropout);
                      for (std::int64_t r = begin; r < end; ++r) {
                        const std::int64_t at = r * cols;
                        mask.set_row(r);
                        add_dropped_row(y + at, a ? a + at : nullptr, b + at, mask, cols);
                      }
                    });
    return;
  }
  parallel_pieces(
      rows * cols, 3 * sizeof(T) * byte_ns,
      [=](std::int64_t begin, std::int64_t end) {
        if (a) {
          add_plain(y + begin, a + begin, b + begin, end - begin);
        } else if (y != b) {
          __builtin_memcpy(y + begin, b + begin, (end - begin) * sizeof(T));
        }
      },
      lanes_of<T>);
}

template <class T>
void scale(T* y, const T* x, std::int64_t count, double factor) {
  const Vec<Acc<T>> by = splat(static_cast<Acc<T>>(factor));
  parallel_pieces(
      count, 2 * sizeof(T) * byte_ns,
      [=](std::int64_t begin, std::int64_t end) {
        for_vectors<lanes_of<T>>(end - begin, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
          store(y + begin + i, load(x + begin + i, n) * by, n);
        });
      },
      lanes_of<T>);
}

// Cost of one element in nanoseconds of one thread.
template <class T>
constexpr double tanh_ns = sizeof(T) == 8 ? 20.0 : 1.2;

template <class T>
void soft_cap(T* y, const T* x, std::int64_t count, double cap) {
  using A = Acc<T>;
  const Vec<A> caps = splat(static_cast<A>(cap)), part = splat(static_cast<A>(1 / cap));
  parallel_pieces(
      count, tanh_ns<T>,
      [=](std::int64_t begin, std::int64_t end) {
        for_vectors<lanes_of<T>>(end - begin, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
          store(y + begin + i, caps * tanh(load(x + begin + i, n) * part), n);
        });
      },
      lanes_of<T>);
}

template <class T>
void soft_cap_grad(T* dx, const T* dy, const T* x, std::int64_t count, double cap) {
  using A = Acc<T>;
  const Vec<A> one = splat(A{1}), part = splat(static_cast<A>(1 / cap));
  parallel_pieces(
      count, tanh_ns<T>,
      [=](std::int64_t begin, std::int64_t end) {
        for_vectors<lanes_of<T>>(end - begin, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
          const auto t = tanh(load(x + begin + i, n) * part);
          store(dx + begin + i, load(dy + begin + i, n) * (one - t * t), n);
        });
      },
      lanes_of<T>);
}

template <class T>
void cast_from_master(T* dst, const Acc<T>* src, std::int64_t count) {
  parallel_pieces(
      count, (sizeof(T) + sizeof(Acc<T>)) * byte_ns,
      [=](std::int64_t begin, std::int64_t end) {
        for_vectors<lanes_of<T>>(end - begin, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
          store(dst + begin + i, load(src + begin + i, n), n);
        });
      },
      lanes_of<T>);
}

// Unsigned integer of T's size, and the exponent's bits: all set means NaN or infinity.
template <class T>
struct Exponent;
template <>
struct Exponent<float> {
  using Bits = std::uint32_t;
  static constexpr Bits mask = 0x7f800000;
};
template <>
struct Exponent<double> {
  using Bits = std::uint64_t;
  static constexpr Bits mask = 0x7ff0000000000000;
};
template <>
struct Exponent<bf16> {
  using Bits = std::uint16_t;
  static constexpr Bits mask = 0x7f80;
};
template <>
struct Exponent<f16> {
  using Bits = std::uint16_t;
  static constexpr Bits mask = 0x7c00;
};

template <class T>
std::int64_t first_not_finite_in(const T* x, std::int64_t begin, std::int64_t end) {
  using Bits = typename Exponent<T>::Bits;
  typedef Bits Word __attribute__((may_alias));
  const auto* bits = reinterpret_cast<const Word*>(x);
  constexpr Bits mask = Exponent<T>::mask;
  constexpr std::int64_t block = 512;
  for (std::int64_t i = begin; i < end; i += block) {
    const std::int64_t stop = i + block < end ? i + block : end;
    Bits found = 0;
    for (std::int64_t j = i; j < stop; ++j) found |= static_cast<Bits>((bits[j] & mask) == mask);
    if (!found) continue;
    for (std::int64_t j = i; j < stop; ++j) {
      if ((bits[j] & mask) == mask) return j;
    }
  }
  return -1;
}

template <class T>
void first_not_finite(std::int64_t* index, const T* x, std::int64_t count) {
  const std::int64_t chunk = flat_chunk(count);
  std::int64_t found[max_flat_chunks];
  std::int64_t* const out = found;
  parallel_chunks(count, chunk, sizeof(T) * byte_ns,
                  [=](std::int64_t part, std::int64_t begin, std::int64_t end) {
                    out[part] = first_not_finite_in(x, begin, end);
                  });
  for (std::int64_t i = 0; i * chunk < count; ++i) {
    if (found[i] < 0) continue;
    *index = found[i];
    return;
  }
  *index = -1;
}

}  // namespace

template <class T>
void set_elementwise(Kernels<T>& table) {
  table.add = at_once<add<T>>;
  table.scale = at_once<scale<T>>;
  table.soft_cap = at_once<soft_cap<T>>;
  table.soft_cap_grad = at_once<soft_cap_grad<T>>;
  table.cast_from_master = at_once<cast_from_master<T>>;
  table.first_not_finite = at_once<first_not_finite<T>>;
}
TRIREME_INSTANTIATE(set_elementwise)

}  // namespace trireme::cpu::TRIREME_ISA
