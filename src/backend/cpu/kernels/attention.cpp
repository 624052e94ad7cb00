// Attention, forward and backward, for all storage types: the plain form.
#include "backend/cpu/kernels/attention.h"

#include <math.h>

#include "base/error.h"
#include "base/thread_pool.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t max_head_dim = 256;

// Adds exp(score - largest) * value of one key to a running, normalised-at-the-end sum.
template <class A>
struct OnlineRow {
  A largest = -INFINITY, sum = 0;
  A out[max_head_dim] = {};

  template <class T>
  void add(A score, const T* value, std::int64_t head_dim) {
    const A next = score > largest ? score : largest;
    const A keep = static_cast<A>(exp(largest - next)), p = static_cast<A>(exp(score - next));
    for (std::int64_t d = 0; d < head_dim; ++d) out[d] = out[d] * keep + p * A(value[d]);
    sum = sum * keep + p;
    largest = next;
  }
};

template <class A, class T>
A dot(const T* x, const T* y, std::int64_t n) {
  A sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += A(x[i]) * A(y[i]);
  return sum;
}

}  // namespace

template <class T>
void attention(const AttentionShape& s, T* ctx, Acc<T>* lse, const T* qkv, void*) {
  using A = Acc<T>;
  const std::int64_t hd = s.head_dim, ld = s.qkv_cols();
  parallel_for(s.batch * s.heads(), [&](std::int64_t task) {
    const std::int64_t b = task / s.heads(), h = task % s.heads(), g = h / s.queries_per_group;
    const T* base = qkv + b * s.seq * ld + g * (s.queries_per_group + 2) * hd;
    const T* q = base + (h % s.queries_per_group) * hd;
    const T* k = base + s.queries_per_group * hd;
    for (std::int64_t i = 0; i < s.seq; ++i) {
      std::int64_t end = s.lengths ? s.lengths[b] : s.seq;
      if (s.causal && end > i + 1) end = i + 1;
      OnlineRow<A> row;
      for (std::int64_t j = s.first_visible ? s.first_visible[b * s.seq + i] : 0; j < end; ++j) {
        row.add(A(s.scale) * dot<A>(q + i * ld, k + j * ld, hd), k + j * ld + hd, hd);
      }
      T* out = ctx + (b * s.seq + i) * s.ctx_cols() + h * hd;
      for (std::int64_t d = 0; d < hd; ++d) out[d] = T(row.sum > 0 ? row.out[d] / row.sum : A(0));
      lse[task * s.seq + i] = row.largest + static_cast<A>(log(row.sum));
    }
  });
}

template <class T>
void attention_grad(const AttentionShape& s, T* dqkv, const T* dctx, const T* qkv, const T* ctx,
                    const Acc<T>* lse, void* workspace) {
  using A = Acc<T>;
  const std::int64_t hd = s.head_dim, ld = s.qkv_cols(), group_cols = (s.queries_per_group + 2) * hd;
  A* sums = static_cast<A*>(workspace);
  parallel_for(s.batch * s.groups, [&](std::int64_t task) {
    const std::int64_t b = task / s.groups, g = task % s.groups;
    const std::int64_t base = b * s.seq * ld + g * group_cols, kcol = s.queries_per_group * hd;
    A* sum = sums + task * s.seq * group_cols;
    for (std::int64_t i = 0; i < s.seq * group_cols; ++i) sum[i] = 0;
    for (std::int64_t h = 0; h < s.queries_per_group; ++h) {
      for (std::int64_t i = 0; i < s.seq; ++i) {
        std::int64_t end = s.lengths ? s.lengths[b] : s.seq;
        if (s.causal && end > i + 1) end = i + 1;
        const std::int64_t head = g * s.queries_per_group + h;
        const T* q = qkv + base + i * ld + h * hd;
        const T* dout = dctx + (b * s.seq + i) * s.ctx_cols() + head * hd;
        const A delta = dot<A>(dout, ctx + (b * s.seq + i) * s.ctx_cols() + head * hd, hd);
        A* dq = sum + i * group_cols + h * hd;
        for (std::int64_t j = s.first_visible ? s.first_visible[b * s.seq + i] : 0; j < end; ++j) {
          const T* k = qkv + base + j * ld + kcol;
          const A p = static_cast<A>(
              exp(A(s.scale) * dot<A>(q, k, hd) - lse[(b * s.heads() + head) * s.seq + i]));
          const A ds = p * (dot<A>(dout, k + hd, hd) - delta) * A(s.scale);
          A* dk = sum + j * group_cols + kcol;
          for (std::int64_t d = 0; d < hd; ++d) {
            dq[d] += ds * A(k[d]);
            dk[d] += ds * A(q[d]);
            dk[hd + d] += p * A(dout[d]);
          }
        }
      }
    }
    for (std::int64_t i = 0; i < s.seq; ++i) {
      for (std::int64_t c = 0; c < group_cols; ++c) {
        dqkv[base + i * ld + c] = T(sum[i * group_cols + c]);
      }
    }
  });
}

template <class T>
std::int64_t attention_workspace(const AttentionShape& s) {
  return s.batch * s.seq * s.qkv_cols() * static_cast<std::int64_t>(sizeof(Acc<T>));
}

template <class T>
void cached_attention(const CachedAttentionShape& s, T* ctx, const T* qkv, T* key_cache,
                      T* value_cache, const std::int32_t* lengths) {
  using A = Acc<T>;
  const std::int64_t hd = s.head_dim, group_cols = (s.queries_per_group + 2) * hd;
  parallel_for(s.batch * s.groups, [&](std::int64_t task) {
    const std::int64_t b = task / s.groups, g = task % s.groups, row = s.groups * hd;
    T* keys = key_cache + b * s.capacity * row + g * hd;
    T* values = value_cache + b * s.capacity * row + g * hd;
    for (std::int64_t i = 0; i < s.new_len; ++i) {
      const T* q = qkv + ((b * s.new_len + i) * s.groups + g) * group_cols;
      const T* k = q + s.queries_per_group * hd;
      const std::int64_t position = lengths[b] + i;
      for (std::int64_t d = 0; d < hd; ++d) {
        keys[position * row + d] = k[d];
        values[position * row + d] = k[hd + d];
      }
      for (std::int64_t h = 0; h < s.queries_per_group; ++h) {
        OnlineRow<A> sum;
        for (std::int64_t j = 0; j <= position; ++j) {
          sum.add(A(s.scale) * dot<A>(q + h * hd, keys + j * row, hd), values + j * row, hd);
        }
        T* out = ctx + ((b * s.new_len + i) * s.groups + g) * s.queries_per_group * hd + h * hd;
        for (std::int64_t d = 0; d < hd; ++d) out[d] = T(sum.out[d] / sum.sum);
      }
    }
  });
}

#define TRIREME_INSTANTIATE(T)                                                                     \
  template void attention<T>(const AttentionShape&, T*, Acc<T>*, const T*, void*);                 \
  template void attention_grad<T>(const AttentionShape&, T*, const T*, const T*, const T*,         \
                                  const Acc<T>*, void*);                                           \
  template std::int64_t attention_workspace<T>(const AttentionShape&);                             \
  template void cached_attention<T>(const CachedAttentionShape&, T*, const T*, T*, T*,             \
                                    const std::int32_t*);
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(bf16)
TRIREME_INSTANTIATE(f16)
TRIREME_INSTANTIATE(double)
#undef TRIREME_INSTANTIATE

}  // namespace trireme::cpu::TRIREME_ISA
