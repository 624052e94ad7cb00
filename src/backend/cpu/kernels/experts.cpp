// Experts: the router's products, and the permutation of rows to experts and back.
#include "backend/cpu/kernels/math.h"
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
double row_ns(std::int64_t cols, std::int64_t times) {
  return sizeof(T) * byte_ns * static_cast<double>(cols) * static_cast<double>(times);
}

template <class T>
void router(Acc<T>* logits, const T* x, const T* weight, const T* bias, std::int64_t rows,
            std::int64_t cols, std::int64_t experts) {
  parallel_pieces(rows, row_ns<T>(cols, experts), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = x + r * cols;
      for (std::int64_t e = 0; e < experts; ++e) {
        const T* column = weight + e * cols;
        logits[r * experts + e] =
            sum_terms<Acc<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
              return load(row + i, n) * load(column + i, n);
            });
        if (bias) logits[r * experts + e] += static_cast<Acc<T>>(bias[e]);
      }
    }
  });
}

template <class T>
void router_input_grad(T* dx, const T* dres, const Acc<T>* dlogits, const T* weight,
                       std::int64_t rows, std::int64_t cols, std::int64_t experts) {
  using A = Acc<T>;
  parallel_pieces(rows, row_ns<T>(cols, experts), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const A* factor = dlogits + r * experts;
      for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
        Vec<A> sum = splat(A{0});
        for (std::int64_t e = 0; e < experts; ++e)
          sum += splat(factor[e]) * load(weight + e * cols + i, n);
        if (dres) sum += load(dres + r * cols + i, n);
        store(dx + r * cols + i, sum, n);
      });
    }
  });
}

// Four rows at once, which quarters the traffic of the sums; the order is the same.
template <class T, class Amount>
TRIREME_INLINE void add_outer(Acc<T>* dweight, const Acc<T>* dlogits, const T* x, std::int64_t rows,
                              std::int64_t cols, std::int64_t experts, Amount n) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const auto x0 = load(x + r * cols, n), x1 = load(x + (r + 1) * cols, n),
               x2 = load(x + (r + 2) * cols, n), x3 = load(x + (r + 3) * cols, n);
    const Acc<T>* d = dlogits + r * experts;
    for (std::int64_t e = 0; e < experts; ++e) {
      auto sum = load(dweight + e * cols, n);
      sum += splat(d[e]) * x0;
      sum += splat(d[e + experts]) * x1;
      sum += splat(d[e + 2 * experts]) * x2;
      sum += splat(d[e + 3 * experts]) * x3;
      store(dweight + e * cols, sum, n);
    }
  }
  for (; r < rows; ++r) {
    const auto x0 = load(x + r * cols, n);
    for (std::int64_t e = 0; e < experts; ++e)
      store(dweight + e * cols, load(dweight + e * cols, n) + splat(dlogits[r * experts + e]) * x0,
            n);
  }
}

template <class T>
void router_weight_grad(Acc<T>* dweight, bool accumulate, const Acc<T>* dlogits, const T* x,
                        std::int64_t rows, std::int64_t cols, std::int64_t experts) {
  using A = Acc<T>;
  if (!accumulate) __builtin_memset(dweight, 0, experts * cols * sizeof(A));
  constexpr std::int64_t lanes = lanes_of<T>;
  const double column_ns = row_ns<T>(rows, experts);
  parallel_pieces(
      cols, column_ns,
      [=](std::int64_t begin, std::int64_t end) {
        for_vectors<lanes>(end - begin, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
          add_outer(dweight + begin + i, dlogits, x + begin + i, rows, cols, experts, n);
        });
      },
      lanes);
}

template <class T>
void clear_rest(const PermuteShape& s, T* y, const std::int32_t* offsets) {
  const std::int64_t used = offsets[s.experts];
  __builtin_memset(static_cast<void*>(y + used * s.cols), 0, (s.taken - used) * s.cols * sizeof(T));
}

template <class T>
void permute_rows(const PermuteShape& s, T* y, const T* x, const Acc<T>* weights,
                  const std::int32_t* places, const std::int32_t* offsets) {
  const std::int64_t cols = s.cols, top_k = s.top_k;
  clear_rest(s, y, offsets);
  parallel_pieces(s.rows, row_ns<T>(cols, top_k + 1), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin * top_k; c < end * top_k; ++c) {
      if (places[c] < 0) continue;
      T* const to = y + places[c] * cols;
      const T* const from = x + c / top_k * cols;
      if (!weights) {
        __builtin_memcpy(static_cast<void*>(to), from, cols * sizeof(T));
        continue;
      }
      const auto weight = splat(weights[c]);
      for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
        store(to + i, weight * load(from + i, n), n);
      });
    }
  });
}

// y[r] = sum over j of term(j, the row of x), in order of j.
template <class T, class Term>
TRIREME_INLINE void sum_rows(T* y, const T* x, const std::int32_t* places, std::int64_t rows,
                             std::int64_t cols, std::int64_t top_k, const Term& term) {
  using A = Acc<T>;
  parallel_pieces(rows, row_ns<T>(cols, top_k + 1), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
        Vec<A> sum = splat(A{0});
        for (std::int64_t c = r * top_k; c < (r + 1) * top_k; ++c) {
          if (places[c] >= 0) sum += term(c, load(x + places[c] * cols + i, n));
        }
        store(y + r * cols + i, sum, n);
      });
    }
  });
}

template <class T>
void unpermute_rows(T* y, const T* x, const std::int32_t* places, std::int64_t rows,
                    std::int64_t cols, std::int64_t top_k) {
  sum_rows(y, x, places, rows, cols, top_k,
           [](std::int64_t, Vec<Acc<T>> row) TRIREME_INLINE_LAMBDA { return row; });
}

template <class T>
void combine_rows(T* y, const T* x, const Acc<T>* weights, const std::int32_t* places,
                  std::int64_t rows, std::int64_t cols, std::int64_t top_k) {
  sum_rows(y, x, places, rows, cols, top_k,
           [=](std::int64_t c, Vec<Acc<T>> row)
               TRIREME_INLINE_LAMBDA { return splat(weights[c]) * row; });
}

template <class T>
void combine_rows_grad(const PermuteShape& s, const CombineGradOperands<T>& o) {
  using A = Acc<T>;
  const std::int64_t cols = s.cols, top_k = s.top_k;
  clear_rest(s, o.dx, o.offsets);
  parallel_pieces(s.rows, row_ns<T>(cols, 3 * top_k), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin * top_k; c < end * top_k; ++c) {
      o.dweights[c] = 0;
      if (o.places[c] < 0) continue;
      const T *from = o.dy + c / top_k * cols, *row = o.x + o.places[c] * cols;
      T* to = o.dx + o.places[c] * cols;
      const auto weight = splat(o.weights[c]);
      o.dweights[c] = sum_terms<A>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
        const Vec<A> gradient = load(from + i, n);
        store(to + i, weight * gradient, n);
        return gradient * load(row + i, n);
      });
    }
  });
}

template <class A>
A sigmoid_of(A x) {
  return sigmoid(splat(x)).part[0][0];
}

template <class T>
void gate_rows(T* y, const T* x, const Acc<T>* gates, std::int64_t rows, std::int64_t cols) {
  parallel_pieces(rows, row_ns<T>(cols, 2), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto factor = splat(sigmoid_of(gates[r]));
      for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
        store(y + r * cols + i, factor * load(x + r * cols + i, n), n);
      });
    }
  });
}

template <class T>
void gate_rows_grad(T* dx, Acc<T>* dgates, const T* dy, const T* x, const Acc<T>* gates,
                    std::int64_t rows, std::int64_t cols) {
  using A = Acc<T>;
  parallel_pieces(rows, row_ns<T>(cols, 3), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const A open = sigmoid_of(gates[r]);
      const auto factor = splat(open);
      const A dot = sum_terms<A>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
        const Vec<A> gradient = load(dy + r * cols + i, n);
        store(dx + r * cols + i, factor * gradient, n);
        return gradient * load(x + r * cols + i, n);
      });
      dgates[r] = open * (1 - open) * dot;
    }
  });
}

// The first of two shares that sum to 1; for the other one, swap the logits.
template <class T>
Acc<T> share_of(T own, T other) {
  using A = Acc<T>;
  return sigmoid_of(static_cast<A>(own) - static_cast<A>(other));
}

template <class T>
void mix_rows(T* y, const T* a, const T* b, const T* logits, std::int64_t rows, std::int64_t cols) {
  parallel_pieces(rows, row_ns<T>(cols, 3), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T *own = logits + 2 * r, *x = a + r * cols, *z = b + r * cols;
      const auto first = splat(share_of(own[0], own[1])), second = splat(share_of(own[1], own[0]));
      for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
        store(y + r * cols + i, first * load(x + i, n) + second * load(z + i, n), n);
      });
    }
  });
}

template <class T>
void mix_rows_grad(T* da, T* db, T* dlogits, const T* dy, const T* a, const T* b, const T* logits,
                   std::int64_t rows, std::int64_t cols) {
  using A = Acc<T>;
  parallel_pieces(rows, row_ns<T>(cols, 5), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T *own = logits + 2 * r, *x = a + r * cols, *z = b + r * cols;
      const A shares[] = {share_of(own[0], own[1]), share_of(own[1], own[0])};
      const auto first = splat(shares[0]), second = splat(shares[1]);
      const A dot = sum_terms<A>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
        const Vec<A> gradient = load(dy + r * cols + i, n);
        store(da + r * cols + i, first * gradient, n);
        store(db + r * cols + i, second * gradient, n);
        return gradient * (load(x + i, n) - load(z + i, n));
      });
      const A moved = shares[0] * shares[1] * dot;
      dlogits[2 * r] = static_cast<T>(moved);
      dlogits[2 * r + 1] = static_cast<T>(-moved);
    }
  });
}

}  // namespace

template <class T>
void set_experts(Kernels<T>& table) {
  table.router = at_once<router<T>>;
  table.router_input_grad = at_once<router_input_grad<T>>;
  table.router_weight_grad = at_once<router_weight_grad<T>>;
  table.permute_rows = at_once<permute_rows<T>>;
  table.unpermute_rows = at_once<unpermute_rows<T>>;
  table.combine_rows = at_once<combine_rows<T>>;
  table.combine_rows_grad = at_once<combine_rows_grad<T>>;
  table.gate_rows = at_once<gate_rows<T>>;
  table.gate_rows_grad = at_once<gate_rows_grad<T>>;
  table.mix_rows = at_once<mix_rows<T>>;
  table.mix_rows_grad = at_once<mix_rows_grad<T>>;
}
TRIREME_INSTANTIATE(set_experts)

}  // namespace trireme::cpu::TRIREME_ISA
