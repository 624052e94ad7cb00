// One chunk of positions of the gated delta rule, as products of small matrices (Yang et al. 2024,
// arXiv:2412.06464).
//
// With the state S before the chunk, keys k_i and queries q_i of length 1, rates b_i, and decays
// D_ij from position j to i, E_i from the state to i, and F_j from j to the end of the chunk:
//   u_i = b_i (v_i - E_i k_i S - sum over j < i of D_ij (k_i . k_j) u_j)   the updates
//   y_i = E_i q_i S + sum over j <= i of D_ij (q_i . k_j) u_j
//   S' = (decay of the chunk) S + sum of F_j k_j^T u_j
// A decay is zero from one document to another.
//
// In the state space of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060) u_i is b_i v_i, y_i has the
// value times the head's skip in addition, and keys and queries have any length.
#pragma once

#include "backend/cpu/delta_sizes.h"
#include "backend/cpu/kernels/attention_fma.h"
#include "backend/cpu/kernels/math.h"
#include "backend/cpu/kernels/norm_rows.h"

namespace trireme::cpu::TRIREME_ISA {

// The rows of one head of values, of one sequence.
template <class T>
struct DeltaHead {
  using A = Acc<T>;

  const DeltaShape& s;
  std::int64_t sample, head;

  std::int64_t group() const { return head / s.per_group; }
  // Columns of the head's query, key and value in a row of qkv.
  std::int64_t query_column() const { return group() * s.group_cols(); }
  std::int64_t key_column() const { return query_column() + s.key_dim; }
  std::int64_t value_column() const {
    return query_column() + 2 * s.key_dim + head % s.per_group * s.value_dim;
  }
  std::int64_t row(std::int64_t position) const { return sample * s.seq + position; }
  template <class E>
  E* in_qkv(E* qkv, std::int64_t position, std::int64_t column) const {
    return qkv + row(position) * s.qkv_cols() + column;
  }
  template <class E>
  E* in_y(E* y, std::int64_t position) const {
    return y + row(position) * s.y_cols() + head * s.value_dim;
  }
  // The position's logarithm of the decay; its rate of writing follows after all heads, then its
  // skip.
  template <class E>
  E* in_rates(E* rates, std::int64_t position) const {
    return rates + row(position) * s.rate_cols() + head;
  }
  // First position of a position's document.
  std::int64_t first_visible(std::int64_t position) const {
    return s.places.first_visible ? s.places.first_visible[row(position)] : 0;
  }
};

// c = left right (+ c), in the engine of attention: m and n are multiples of 16.
template <class A>
TRIREME_INLINE void delta_product(A* c, std::int64_t ldc, typename FmaEngine<A>::Left left,
                                  typename FmaEngine<A>::Right right, std::int64_t m,
                                  std::int64_t n, std::int64_t k, bool adds) {
  FmaEngine<A>::product(c, ldc, left, right, m, n, k, adds);
}

// Copies `count` elements, followed by zeros up to `width`, a multiple of 16.
template <class T>
TRIREME_INLINE void copy_padded(Acc<T>* to, const T* from, std::int64_t count, std::int64_t width) {
  constexpr int lanes = lanes_of<T>;
  for (std::int64_t i = count / lanes * lanes; i < width; i += lanes)
    store(to + i, splat(Acc<T>{0}));
  for_vectors<lanes>(count, [&](std::int64_t i, auto n)
                                TRIREME_INLINE_LAMBDA { store(to + i, load(from + i, n)); });
}

// to[i] = factor * from[i] (+ to[i]); `width` is a multiple of 16.
template <bool adds, class A>
TRIREME_INLINE void scale_row(A* to, const A* from, A factor, std::int64_t width) {
  constexpr int lanes = Vec<A>::lanes;
  for (std::int64_t i = 0; i < width; i += lanes) {
    auto x = splat(factor) * load(from + i);
    if constexpr (adds) x += load(to + i);
    store(to + i, x);
  }
}

template <class A>
TRIREME_INLINE A dot_rows(const A* a, const A* b, std::int64_t width) {
  return sum_terms<A>(width, [&](std::int64_t i, auto n)
                                 TRIREME_INLINE_LAMBDA { return load(a + i, n) * load(b + i, n); });
}

// Writes the row's direction times `factor`, padded to a multiple of 16; returns 1 / length.
template <class T>
Acc<T> normalize_row(Acc<T>* to, const T* from, std::int64_t dim, Acc<T> factor) {
  using A = Acc<T>;
  const std::int64_t width = round_up(dim, 16);
  copy_padded(to, from, dim, width);
  const A scale = reciprocal_root(dot_rows(to, to, width) + static_cast<A>(1e-6));
  scale_row<false>(to, to, scale * factor, width);
  return scale;
}

// What a chunk's rows are packed as; rows after the last position are zero.
template <class T>
struct DeltaChunk {
  using A = Acc<T>;
  static constexpr std::int64_t rows = delta_chunk, wide = max_delta_dim;

  std::int64_t first, count, padded;  // positions, and their number rounded up to 16
  std::int64_t wk, wv;                // columns of keys and values
  A chunk_decay;
  alignas(64) A q[rows * wide], k[rows * wide], v[rows * wide];
  alignas(64) A u[rows * wide];                  // updates
  alignas(64) A other[rows * wide];              // at hand
  alignas(64) A decays[rows * rows];             // D, zero above the diagonal
  alignas(64) A scores[rows * rows];             // D_ij (q_i . k_j)
  alignas(64) A keys[rows * rows];               // D_ij (k_i . k_j), zero from the diagonal on
  alignas(64) A system[rows * rows];             // -b_i D_ij (k_i . k_j)
  A from_state[rows], to_end[rows], rate[rows];  // E, F, b
  A skip;                                        // of the head, in a state space
  bool state_space;

  // Reads positions [at, at + n), of which there is at least one.
  void load_rows(const DeltaHead<T>& head, const T* qkv, const A* rates, std::int64_t at,
                 std::int64_t n) {
    const DeltaShape& s = head.s;
    first = at;
    count = n;
    padded = round_up(n, 16);
    wk = delta_key_cols(s);
    wv = delta_value_cols(s);
    const A shrink = reciprocal_root(static_cast<A>(s.key_dim));
    state_space = s.state_space;
    skip = state_space ? head.in_rates(rates, at)[2 * s.heads()] : A{0};
    for (std::int64_t i = 0; i < n; ++i) {
      const T* const query = head.in_qkv(qkv, at + i, head.query_column());
      const T* const key = head.in_qkv(qkv, at + i, head.key_column());
      if (state_space) {
        copy_padded(q + i * wk, query, s.key_dim, wk);
        copy_padded(k + i * wk, key, s.key_dim, wk);
      } else {
        normalize_row(q + i * wk, query, s.key_dim, shrink);
        normalize_row(k + i * wk, key, s.key_dim, A{1});
      }
      copy_padded(v + i * wv, head.in_qkv(qkv, at + i, head.value_column()), s.value_dim, wv);
      rate[i] = head.in_rates(rates, at + i)[s.heads()];
    }
    for (std::int64_t i = n; i < padded; ++i) {
      copy_padded<A>(q + i * wk, nullptr, 0, wk);
      copy_padded<A>(k + i * wk, nullptr, 0, wk);
      copy_padded<A>(v + i * wv, nullptr, 0, wv);
      rate[i] = 0;
    }
    set_decays(head, rates);
  }

  // Computes the products of keys with each other, unless in a state space, and, if wanted, with
  // queries.
  void multiply_keys(bool with_queries) {
    if (state_space && !with_queries) return;
    transpose(other, padded, k, wk, padded, wk);
    if (with_queries) multiply_decayed(scores, q, other);
    if (state_space) return;
    multiply_decayed(keys, k, other);
    for (std::int64_t i = 0; i < padded; ++i) {
      A* const row = keys + i * rows;
      for (std::int64_t j = i; j < padded; ++j) row[j] = 0;
      scale_row<false>(system + i * rows, row, -rate[i], padded);
    }
  }

  // Updates u from the state, and what keys read from it, in `read`; of a state space without them.
  void solve(A* read, const A* state) {
    if (state_space) {
      for (std::int64_t i = 0; i < padded; ++i)
        scale_row<false>(u + i * wv, v + i * wv, rate[i], wv);
      return;
    }
    delta_product(read, wv, {k, wk, 1}, {state, wv}, padded, wv, wk, false);
    for (std::int64_t i = 0; i < padded; ++i) {
      scale_row<false>(u + i * wv, v + i * wv, rate[i], wv);
      scale_row<true>(u + i * wv, read + i * wv, -rate[i] * from_state[i], wv);
    }
    for (std::int64_t block = 0; block < padded; block += 16) {
      if (block > 0)
        delta_product(u + block * wv, wv, {system + block * rows, rows, 1}, {u, wv}, 16, wv, block,
                      true);
      substitute(block);
    }
  }

  // state = chunk_decay state + sum of F_j k_j^T u_j.
  void advance(A* state) {
    for (std::int64_t i = 0; i < padded; ++i)
      scale_row<false>(other + i * wk, k + i * wk, to_end[i], wk);
    for (std::int64_t i = 0; i < wk; ++i)
      scale_row<false>(state + i * wv, state + i * wv, chunk_decay, wv);
    delta_product(state, wv, {other, 1, wk}, {u, wv}, wk, wv, padded, true);
  }

 private:
  // Adds to each of 16 updates what follows from those before it.
  void substitute(std::int64_t block) {
    constexpr int lanes = Vec<A>::lanes;
    for (std::int64_t column = 0; column < wv; column += lanes) {
      A* const at = u + block * wv + column;
      const A* const factors = system + block * rows + block;
      for (std::int64_t i = 1; i < 16; ++i) {
        auto sum = load(at + i * wv);
        for (std::int64_t j = 0; j < i; ++j)
          sum += splat(factors[i * rows + j]) * load(at + j * wv);
        store(at + i * wv, sum);
      }
    }
  }

  // c [padded, padded] = D_ij times the product of a and the transposed rows.
  void multiply_decayed(A* c, const A* a, const A* transposed) const {
    delta_product(c, rows, {a, wk, 1}, {transposed, padded}, padded, padded, wk, false);
    for (std::int64_t i = 0; i < padded; ++i) {
      for (std::int64_t j = 0; j < padded; j += Vec<A>::lanes) {
        A* const at = c + i * rows + j;
        store(at, load(at) * load(decays + i * rows + j));
      }
    }
  }

  // Decays are differences of sums of logarithms, in double: the sums may be large.
  void set_decays(const DeltaHead<T>& head, const A* rates) {
    constexpr int lanes = Vec<A>::lanes;
    double sums[rows];
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i)
      sums[i] = sum += static_cast<double>(*head.in_rates(rates, first + i));
    for (std::int64_t i = 0; i < padded; ++i) {
      A* const row = decays + i * rows;
      for (std::int64_t j = 0; j < padded; ++j) row[j] = 0;
      if (i >= count) {
        from_state[i] = to_end[i] = 0;
        continue;
      }
      const std::int64_t document = head.first_visible(first + i);
      const std::int64_t begin = document > first ? document - first : 0;
      for (std::int64_t j = begin; j <= i; ++j) row[j] = static_cast<A>(sums[i] - sums[j]);
      for_vectors<lanes>(i + 1 - begin, [&](std::int64_t j, auto n) TRIREME_INLINE_LAMBDA {
        store(row + begin + j, exp(load(row + begin + j, n)), n);
      });
      from_state[i] = document < first || document == 0 ? exp_of(sums[i]) : A{0};
    }
    const A* const last = decays + (count - 1) * rows;
    for (std::int64_t j = 0; j < count; ++j) to_end[j] = last[j];
    chunk_decay = from_state[count - 1];
  }

  static A exp_of(double x) { return exp(splat(static_cast<A>(x))).part[0][0]; }
};

}  // namespace trireme::cpu::TRIREME_ISA
