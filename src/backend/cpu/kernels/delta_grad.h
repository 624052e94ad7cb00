// Gradient of the gated delta rule, or of a state space, for the value heads that share a key head,
// in one sequence.
// States before each chunk and updates are computed again, then chunks follow from last to first.
#pragma once

#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/delta_chunk.h"

namespace trireme::cpu::TRIREME_ISA {

template <class T>
class DeltaGroupGrad {
  using A = Acc<T>;
  using Chunk = DeltaChunk<T>;
  static constexpr std::int64_t rows = delta_chunk;

  struct Scratch {
    Chunk chunk;
    // Gradient of the state after the chunk, and transposes of states.
    alignas(64) A dstate[max_delta_dim * max_delta_dim];
    alignas(64) A dstate_columns[max_delta_dim * max_delta_dim];
    alignas(64) A state_columns[max_delta_dim * max_delta_dim];
    alignas(64) A dy[rows * max_delta_dim], read[rows * max_delta_dim];
    alignas(64) A du[rows * max_delta_dim], other[rows * max_delta_dim];
    alignas(64) A update_columns[rows * max_delta_dim];
    alignas(64) A dscores[rows * rows], dsystem[rows * rows];
    // Gradients of the decays, of the rates, and of the sums of logarithms of decays.
    A dfrom_state[rows], dto_end[rows], drate[rows];
    A dskip[rows];
    double dsum[rows];
  };

 public:
  DeltaGroupGrad(const DeltaShape& s, const DeltaGradOperands<T>& o, std::int64_t sample,
                 std::int64_t group)
      : s_(s),
        o_(o),
        sample_(sample),
        group_(group),
        chunks_(ceil_div(s.seq, rows)),
        wk_(delta_key_cols(s)),
        wv_(delta_value_cols(s)),
        m_(scratch_as<Scratch>()),
        c_(m_.chunk) {
    states_ = static_cast<A*>(o.workspace) + (sample * s.groups + group) * delta_grad_elements(s);
    updates_ = states_ + chunks_ * delta_state_elements(s);
    dq_ = updates_ + chunks_ * rows * wv_;
    dk_ = dq_ + chunks_ * rows * wk_;
  }

  void run() {
    for (std::int64_t i = 0; i < s_.per_group; ++i) {
      const DeltaHead<T> head{s_, sample_, group_ * s_.per_group + i};
      keep_states(head);
      for (std::int64_t j = 0; j < wk_ * wv_; ++j) m_.dstate[j] = 0;
      for (std::int64_t chunk = chunks_ - 1; chunk >= 0; --chunk) run_chunk(head, chunk, i > 0);
    }
    const DeltaHead<T> any{s_, sample_, group_ * s_.per_group};
    const A shrink = reciprocal_root(static_cast<A>(s_.key_dim));
    for (std::int64_t p = 0; p < s_.seq; ++p) {
      if (s_.state_space) {
        write_row(head_row(any, p, any.query_column()), dq_ + p * wk_, s_.key_dim);
        write_row(head_row(any, p, any.key_column()), dk_ + p * wk_, s_.key_dim);
        continue;
      }
      write_normalized(any, p, any.query_column(), dq_, shrink);
      write_normalized(any, p, any.key_column(), dk_, A{1});
    }
  }

 private:
  A* state(std::int64_t chunk) const { return states_ + chunk * delta_state_elements(s_); }
  A* updates(std::int64_t chunk) const { return updates_ + chunk * rows * wv_; }

  void load_chunk(const DeltaHead<T>& head, std::int64_t chunk, bool with_queries) {
    const std::int64_t first = chunk * rows, rest = s_.seq - first;
    c_.load_rows(head, o_.qkv, o_.rates, first, rest < rows ? rest : rows);
    c_.multiply_keys(with_queries);
  }

  void keep_states(const DeltaHead<T>& head) {
    for (std::int64_t i = 0; i < wk_ * wv_; ++i) states_[i] = 0;
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
      load_chunk(head, chunk, false);
      c_.solve(m_.read, state(chunk));
      __builtin_memcpy(updates(chunk), c_.u, c_.padded * wv_ * sizeof(A));
      if (chunk + 1 == chunks_) break;
      __builtin_memcpy(state(chunk + 1), state(chunk), wk_ * wv_ * sizeof(A));
      c_.advance(state(chunk + 1));
    }
  }

  void run_chunk(const DeltaHead<T>& head, std::int64_t chunk, bool adds) {
    load_chunk(head, chunk, true);
    A* const dq = dq_ + chunk * rows * wk_;
    A* const dk = dk_ + chunk * rows * wk_;
    __builtin_memcpy(c_.u, updates(chunk), c_.padded * wv_ * sizeof(A));
    for (std::int64_t i = 0; i < c_.padded; ++i) {
      const bool real = i < c_.count;
      copy_padded(m_.dy + i * wv_, real ? head.in_y(o_.dy, c_.first + i) : nullptr,
                  real ? s_.value_dim : 0, wv_);
      m_.dsum[i] = 0;
    }
    transpose(m_.state_columns, wk_, state(chunk), wv_, wk_, wv_);
    transpose(m_.dstate_columns, wk_, m_.dstate, wv_, wk_, wv_);
    transpose(m_.update_columns, c_.padded, c_.u, wv_, c_.padded, wv_);
    add_reads_of_state(dq, adds);
    add_writes_to_state(dk, adds);
    if (s_.state_space) {
      add_values(head);
      add_scores(dq, dk);
    } else {
      solve_updates();
      add_updates(head, chunk, dk);
      add_products(dq, dk);
    }
    add_decays(head, state(chunk));
    advance_back();
  }

  // to = factors * from (+ to), row by row of keys.
  void add_rows(A* to, const A* from, const A* factors, bool adds) const {
    for (std::int64_t i = 0; i < c_.padded; ++i) {
      if (adds)
        scale_row<true>(to + i * wk_, from + i * wk_, factors[i], wk_);
      else
        scale_row<false>(to + i * wk_, from + i * wk_, factors[i], wk_);
    }
  }

  // y = E_i q_i S + ...
  void add_reads_of_state(A* dq, bool adds) {
    delta_product(m_.other, wk_, {m_.dy, wv_, 1}, {m_.state_columns, wk_}, c_.padded, wk_, wv_,
                  false);
    for (std::int64_t i = 0; i < c_.padded; ++i)
      m_.dfrom_state[i] = dot_rows(c_.q + i * wk_, m_.other + i * wk_, wk_);
    add_rows(dq, m_.other, c_.from_state, adds);
  }

  // S' = ... + sum of F_j k_j^T u_j; also sets the gradient of the updates.
  void add_writes_to_state(A* dk, bool adds) {
    delta_product(m_.du, wv_, {c_.scores, 1, rows}, {m_.dy, wv_}, c_.padded, wv_, c_.padded, false);
    for (std::int64_t i = 0; i < c_.padded; ++i)
      scale_row<false>(m_.other + i * wk_, c_.k + i * wk_, c_.to_end[i], wk_);
    delta_product(m_.du, wv_, {m_.other, wk_, 1}, {m_.dstate, wv_}, c_.padded, wv_, wk_, true);
    delta_product(m_.other, wk_, {c_.u, wv_, 1}, {m_.dstate_columns, wk_}, c_.padded, wk_, wv_,
                  false);
    for (std::int64_t i = 0; i < c_.padded; ++i)
      m_.dto_end[i] = dot_rows(c_.k + i * wk_, m_.other + i * wk_, wk_);
    add_rows(dk, m_.other, c_.to_end, adds);
  }

  // Gradient of the right-hand sides of the updates: du += system^T du, from the last row on.
  void solve_updates() {
    constexpr int lanes = Vec<A>::lanes;
    for (std::int64_t block = c_.padded - 16; block >= 0; block -= 16) {
      const std::int64_t after = block + 16;
      A* const own = m_.du + block * wv_;
      if (after < c_.padded)
        delta_product(own, wv_, {c_.system + after * rows + block, 1, rows},
                      {m_.du + after * wv_, wv_}, 16, wv_, c_.padded - after, true);
      const A* const factors = c_.system + block * rows + block;
      for (std::int64_t column = 0; column < wv_; column += lanes) {
        for (std::int64_t i = 14; i >= 0; --i) {
          auto sum = load(own + i * wv_ + column);
          for (std::int64_t j = 15; j > i; --j)
            sum += splat(factors[j * rows + i]) * load(own + j * wv_ + column);
          store(own + i * wv_ + column, sum);
        }
      }
    }
  }

  // b_i (v_i - E_i k_i S)
  void add_updates(const DeltaHead<T>& head, std::int64_t chunk, A* dk) {
    delta_product(m_.dsystem, rows, {m_.du, wv_, 1}, {m_.update_columns, c_.padded}, c_.padded,
                  c_.padded, wv_, false);
    delta_product(m_.read, wv_, {c_.k, wk_, 1}, {state(chunk), wv_}, c_.padded, wv_, wk_, false);
    for (std::int64_t i = 0; i < c_.padded; ++i) {
      A* const du = m_.du + i * wv_;
      const A by_read = dot_rows(du, m_.read + i * wv_, wv_);
      m_.drate[i] = dot_rows(du, c_.v + i * wv_, wv_) - c_.from_state[i] * by_read;
      m_.dfrom_state[i] -= c_.rate[i] * by_read;
      scale_row<false>(du, du, c_.rate[i], wv_);
      if (i < c_.count)
        write_row(head_row(head, c_.first + i, head.value_column()), du, s_.value_dim);
      scale_row<false>(du, du, -c_.from_state[i], wv_);
    }
    delta_product(dk, wk_, {m_.du, wv_, 1}, {m_.state_columns, wk_}, c_.padded, wk_, wv_, true);
  }

  // In a state space: b_i v_i, and the values' own share of y.
  void add_values(const DeltaHead<T>& head) {
    for (std::int64_t i = 0; i < c_.padded; ++i) {
      A* const du = m_.du + i * wv_;
      const A* const dy = m_.dy + i * wv_;
      m_.drate[i] = dot_rows(du, c_.v + i * wv_, wv_);
      m_.dskip[i] = dot_rows(dy, c_.v + i * wv_, wv_);
      scale_row<false>(du, du, c_.rate[i], wv_);
      scale_row<true>(du, dy, c_.skip, wv_);
      if (i < c_.count)
        write_row(head_row(head, c_.first + i, head.value_column()), du, s_.value_dim);
    }
  }

  // In a state space: D_ij (q_i . k_j).
  void add_scores(A* dq, A* dk) {
    delta_product(m_.dscores, rows, {m_.dy, wv_, 1}, {m_.update_columns, c_.padded}, c_.padded,
                  c_.padded, wv_, false);
    for (std::int64_t i = 0; i < c_.padded; ++i) {
      A* const dscores = m_.dscores + i * rows;
      const std::int64_t at = i * rows;
      double all = 0;
      for (std::int64_t j = 0; j < i; ++j) {
        const auto log_decay = static_cast<double>(dscores[j] * c_.scores[at + j]);
        m_.dsum[j] -= log_decay;
        all += log_decay;
      }
      m_.dsum[i] += all;
      for (std::int64_t j = 0; j < c_.padded; ++j) dscores[j] *= c_.decays[at + j];
    }
    delta_product(dq, wk_, {m_.dscores, rows, 1}, {c_.k, wk_}, c_.padded, wk_, c_.padded, true);
    delta_product(dk, wk_, {m_.dscores, 1, rows}, {c_.q, wk_}, c_.padded, wk_, c_.padded, true);
  }

  // D_ij (q_i . k_j) and -b_i D_ij (k_i . k_j)
  void add_products(A* dq, A* dk) {
    delta_product(m_.dscores, rows, {m_.dy, wv_, 1}, {m_.update_columns, c_.padded}, c_.padded,
                  c_.padded, wv_, false);
    for (std::int64_t i = 0; i < c_.padded; ++i) {
      A* const dscores = m_.dscores + i * rows;
      A* const dsystem = m_.dsystem + i * rows;
      const std::int64_t at = i * rows;
      double all = 0;
      A drate = 0;
      for (std::int64_t j = 0; j < i; ++j) {
        const A log_decay = dscores[j] * c_.scores[at + j] + dsystem[j] * c_.system[at + j];
        m_.dsum[j] -= static_cast<double>(log_decay);
        all += static_cast<double>(log_decay);
        drate -= dsystem[j] * c_.keys[at + j];
        dscores[j] *= c_.decays[at + j];
        dsystem[j] *= -c_.rate[i] * c_.decays[at + j];
        m_.dsystem[j * rows + i] = dsystem[j];
      }
      m_.dsum[i] += all;
      m_.drate[i] += drate;
      dscores[i] *= c_.decays[at + i];
      dsystem[i] = 0;
      for (std::int64_t j = i + 1; j < c_.padded; ++j) dscores[j] = 0;
    }
    delta_product(dq, wk_, {m_.dscores, rows, 1}, {c_.k, wk_}, c_.padded, wk_, c_.padded, true);
    delta_product(dk, wk_, {m_.dscores, 1, rows}, {c_.q, wk_}, c_.padded, wk_, c_.padded, true);
    delta_product(dk, wk_, {m_.dsystem, rows, 1}, {c_.k, wk_}, c_.padded, wk_, c_.padded, true);
  }

  // Writes the gradients of the logarithms of the decays, and of the rates.
  void add_decays(const DeltaHead<T>& head, const A* state) {
    const std::int64_t last = c_.count - 1;
    for (std::int64_t i = 0; i <= last; ++i) {
      const double to_end = static_cast<double>(m_.dto_end[i] * c_.to_end[i]);
      m_.dsum[i] += static_cast<double>(m_.dfrom_state[i] * c_.from_state[i]) - to_end;
      m_.dsum[last] += to_end;
    }
    m_.dsum[last] += static_cast<double>(dot_rows(state, m_.dstate, wk_ * wv_) * c_.chunk_decay);
    double sum = 0;
    for (std::int64_t i = last; i >= 0; --i) {
      A* const rates = head.in_rates(o_.drates, c_.first + i);
      sum += m_.dsum[i];
      rates[0] = static_cast<A>(sum);
      rates[s_.heads()] = m_.drate[i];
      if (s_.state_space) rates[2 * s_.heads()] = m_.dskip[i];
    }
  }

  // Gradient of the state before the chunk.
  void advance_back() {
    for (std::int64_t i = 0; i < wk_; ++i)
      scale_row<false>(m_.dstate + i * wv_, m_.dstate + i * wv_, c_.chunk_decay, wv_);
    add_rows(m_.other, c_.q, c_.from_state, false);
    delta_product(m_.dstate, wv_, {m_.other, 1, wk_}, {m_.dy, wv_}, wk_, wv_, c_.padded, true);
    if (s_.state_space) return;
    delta_product(m_.dstate, wv_, {c_.k, 1, wk_}, {m_.du, wv_}, wk_, wv_, c_.padded, true);
  }

  T* head_row(const DeltaHead<T>& head, std::int64_t position, std::int64_t column) const {
    return head.in_qkv(o_.dqkv, position, column);
  }
  static void write_row(T* to, const A* from, std::int64_t count) {
    for_vectors<lanes_of<T>>(count, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
      store(to + i, load(from + i, n), n);
    });
  }

  // Writes the gradient of a row x, where d is that of factor * x / length.
  void write_normalized(const DeltaHead<T>& head, std::int64_t position, std::int64_t column,
                        const A* d, A factor) {
    A unit[max_delta_dim];
    const A scale = normalize_row(unit, head.in_qkv(o_.qkv, position, column), s_.key_dim, A{1});
    const A* const grad = d + position * wk_;
    const A along = dot_rows(unit, grad, wk_);
    T* const to = head_row(head, position, column);
    for_vectors<lanes_of<T>>(s_.key_dim, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
      store(to + i, splat(scale * factor) * (load(grad + i, n) - splat(along) * load(unit + i, n)),
            n);
    });
  }

  const DeltaShape& s_;
  const DeltaGradOperands<T>& o_;
  std::int64_t sample_, group_, chunks_, wk_, wv_;
  Scratch& m_;
  Chunk& c_;
  A *states_, *updates_, *dq_, *dk_;
};

}  // namespace trireme::cpu::TRIREME_ISA
