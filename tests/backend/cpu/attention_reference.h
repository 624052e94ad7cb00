// Attention written down plainly, in double: what the kernels are measured against.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/kernels.h"
#include "base/random.h"

namespace trireme::cpu {

// Multiplier of one attention probability, straight from the definition in dropout_mask.h.
inline double keep_factor(const AttentionShape& s, std::int64_t sample, std::int64_t head,
                          std::int64_t query, std::int64_t key) {
  if (s.dropout.probability == 0) return 1;
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const Philox site =
      philox(s.dropout.block->seed, {low(s.dropout.block->step), high(s.dropout.block->step),
                                     s.dropout.site, low(1 + s.first_head + head)});
  const std::uint64_t id = s.dropout.sample_ids[sample];
  const Philox words =
      philox(std::uint64_t{site[1]} << 32 | site[0], {low(query), low(key / 8), low(id), high(id)});
  const std::uint32_t draw = words[key % 8 / 2] >> (key % 2 ? 16 : 0) & 0xffff;
  const double threshold = std::round((1.0f - s.dropout.probability) * 65536.0f);
  return draw < threshold ? 65536 / threshold : 0;
}

// What a head's scores get for each position that a key is ahead of the query, from the slopes that
// the paper lists: 2^(-8 / n), its square ..., and for the heads after a power of two those of
// twice as many, every second one.
inline double alibi_slope(const AttentionShape& s, std::int64_t head) {
  if (s.alibi_heads == 0) return 0;
  const auto slopes = [](std::int64_t n) {
    std::vector<double> list;
    for (std::int64_t i = 1; i <= n; ++i)
      list.push_back(std::pow(2.0, -8.0 * static_cast<double>(i) / static_cast<double>(n)));
    return list;
  };
  std::int64_t power = 1;
  while (2 * power <= s.alibi_heads) power *= 2;
  std::vector<double> all = slopes(power);
  const std::vector<double> further = slopes(2 * power);
  for (std::int64_t i = 0; i < power; ++i) all.push_back(further[2 * i]);
  return all[static_cast<std::size_t>(s.first_head + head)];
}

struct AttentionReference {
  std::vector<double> ctx, lse, dqkv;
  std::vector<double> highest;  // by head: largest positive score

  // dctx may be null: then no gradient is made.
  AttentionReference(const AttentionShape& s, const double* qkv, const double* dctx)
      : ctx(s.batch * s.seq * s.ctx_cols()),
        lse(s.batch * s.heads() * s.seq),
        dqkv(s.batch * s.seq * s.qkv_cols()),
        highest(s.heads()) {
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t h = 0; h < s.heads(); ++h) {
        for (std::int64_t i = 0; i < s.seq; ++i) row(s, qkv, dctx, b, h, i);
      }
    }
  }

 private:
  void row(const AttentionShape& s, const double* qkv, const double* dctx, std::int64_t b,
           std::int64_t h, std::int64_t i) {
    const std::int64_t hd = s.head_dim, ld = s.qkv_cols(), qpg = s.queries_per_group;
    const std::int64_t group = b * s.seq * ld + h / qpg * (qpg + 2) * hd;
    const std::int64_t q = group + i * ld + h % qpg * hd, k = group + qpg * hd, v = k + hd;
    const std::int64_t out = (b * s.seq + i) * s.ctx_cols() + h * hd;
    const std::int64_t begin = s.first_visible ? s.first_visible[b * s.seq + i] : 0;
    std::int64_t end = s.lengths ? s.lengths[b] : s.seq;
    if (s.causal) end = std::min(end, i + 1);
    double& log_sum = lse[(b * s.heads() + h) * s.seq + i];
    log_sum = -std::numeric_limits<double>::infinity();
    if (begin >= end) return;

    const auto dot = [hd](const double* x, const double* y) {
      double sum = 0;
      for (std::int64_t d = 0; d < hd; ++d) sum += x[d] * y[d];
      return sum;
    };
    std::vector<double> p(end), slopes(end, 1);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t j = begin; j < end; ++j) {
      const double score = s.scale * dot(qkv + q, qkv + k + j * ld);
      if (s.soft_cap > 0) slopes[j] = 1 - std::pow(std::tanh(score / s.soft_cap), 2);
      p[j] = (s.soft_cap > 0 ? s.soft_cap * std::tanh(score / s.soft_cap) : score) +
             alibi_slope(s, h) * static_cast<double>(j - i);
      largest = std::max(largest, p[j]);
    }
    highest[h] = std::max(highest[h], largest);
    for (std::int64_t j = begin; j < end; ++j) sum += p[j] = std::exp(p[j] - largest);
    log_sum = largest + std::log(sum);
    for (std::int64_t j = begin; j < end; ++j) {
      p[j] /= sum;
      const double weight = p[j] * keep_factor(s, b, h, i, j);
      for (std::int64_t d = 0; d < hd; ++d) ctx[out + d] += weight * qkv[v + j * ld + d];
    }
    if (!dctx) return;
    const double delta = dot(dctx + out, ctx.data() + out);
    for (std::int64_t j = begin; j < end; ++j) {
      const double keep = keep_factor(s, b, h, i, j);
      const double ds =
          s.scale * slopes[j] * p[j] * (keep * dot(dctx + out, qkv + v + j * ld) - delta);
      for (std::int64_t d = 0; d < hd; ++d) {
        dqkv[q + d] += ds * qkv[k + j * ld + d];
        dqkv[k + j * ld + d] += ds * qkv[q + d];
        dqkv[v + j * ld + d] += p[j] * keep * dctx[out + d];
      }
    }
  }
};

}  // namespace trireme::cpu
