// The oracle: forward and backward of one transformer block, written by hand in double with plain
// loops. It shares no code with the engine and is not made to be fast; when the engine and this
// file disagree, one of them is wrong, and finite differences (oracle_test.cpp) back this one.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <vector>

namespace trireme::oracle {

using Values = std::vector<double>;

// Pre-norm block: x + attention(norm(x)), then + mlp(norm(that)). Activations are
// [batch, seq, hidden], row-major; linear weights [out, in].
struct Block {
  int batch = 1;
  int seq = 1;
  int hidden = 1;
  int heads = 1;
  int kv_heads = 1;  // heads / kv_heads queries share a key and a value
  int ffn = 1;
  bool rms_norm = false;  // else LayerNorm
  double eps = 1e-5;
  bool rope = false;  // rotate-half over the first rope_dims of each head
  int rope_dims = 0;  // 0: the whole head
  double rope_base = 10000;
  bool causal = true;
  enum Activation { gelu_tanh, gelu_erf, swiglu } activation = gelu_tanh;

  int head_dim() const { return hidden / heads; }
  int rows() const { return batch * seq; }
  int group_rows() const { return (heads / kv_heads + 2) * head_dim(); }  // of qkv, per kv head
  int qkv() const { return kv_heads * group_rows(); }
  int up() const { return activation == swiglu ? 2 * ffn : ffn; }  // gate rows, then up rows
};

// Parameters and their gradients by name: "input_norm.weight", "input_norm.bias",
// "attention.qkv.weight", "attention.qkv.bias", "attention.out.*", "mlp_norm.*", "mlp.up.*",
// "mlp.down.*". A name that is absent counts as no bias.
using Parameters = std::map<std::string, Values>;

struct Gradients {
  Values dx;
  Parameters parameters;
};

inline const double* find(const Parameters& parameters, const std::string& name) {
  const auto at = parameters.find(name);
  return at == parameters.end() ? nullptr : at->second.data();
}

// ---- linear: y[r, o] = sum_i x[r, i] w[o, i] + b[o]

inline Values linear(const Parameters& p, const std::string& name, const Values& x, int rows,
                     int in, int out) {
  const Values& w = p.at(name + ".weight");
  const double* b = find(p, name + ".bias");
  Values y(static_cast<std::size_t>(rows) * out);
  for (int r = 0; r < rows; ++r) {
    for (int o = 0; o < out; ++o) {
      double sum = b ? b[o] : 0;
      for (int i = 0; i < in; ++i) sum += x[r * in + i] * w[o * in + i];
      y[r * out + o] = sum;
    }
  }
  return y;
}

// Adds the gradients of weight and bias to `grads` and returns dx.
inline Values linear_backward(const Parameters& p, Parameters& grads, const std::string& name,
                              const Values& x, const Values& dy, int rows, int in, int out) {
  const Values& w = p.at(name + ".weight");
  Values& dw = grads[name + ".weight"];
  dw.assign(w.size(), 0);
  Values dx(x.size());
  for (int r = 0; r < rows; ++r) {
    for (int o = 0; o < out; ++o) {
      for (int i = 0; i < in; ++i) {
        dw[o * in + i] += dy[r * out + o] * x[r * in + i];
        dx[r * in + i] += dy[r * out + o] * w[o * in + i];
      }
    }
  }
  if (find(p, name + ".bias")) {
    Values& db = grads[name + ".bias"];
    db.assign(out, 0);
    for (int r = 0; r < rows; ++r) {
      for (int o = 0; o < out; ++o) db[o] += dy[r * out + o];
    }
  }
  return dx;
}

// ---- norm: y = (x - mean) / sqrt(variance + eps) * w + b; RMSNorm has mean 0 and no b

struct Moments {
  double mean;
  double inverse;  // 1 / sqrt(variance + eps)
};

inline Moments moments(const Block& block, const double* x) {
  const int n = block.hidden;
  double mean = 0;
  if (!block.rms_norm) {
    for (int i = 0; i < n; ++i) mean += x[i] / n;
  }
  double variance = 0;
  for (int i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean) / n;
  return {mean, 1 / std::sqrt(variance + block.eps)};
}

inline Values norm(const Block& block, const Parameters& p, const std::string& name,
                   const Values& x) {
  const int n = block.hidden;
  const Values& w = p.at(name + ".weight");
  const double* b = find(p, name + ".bias");
  Values y(x.size());
  for (int r = 0; r < block.rows(); ++r) {
    const Moments m = moments(block, &x[r * n]);
    for (int i = 0; i < n; ++i) {
      y[r * n + i] = (x[r * n + i] - m.mean) * m.inverse * w[i] + (b ? b[i] : 0);
    }
  }
  return y;
}

// With z = (x - mean) * inverse and g = dy * w:
// dx = inverse * (g - mean(g) - z * mean(g * z)); RMSNorm lacks the term mean(g).
inline Values norm_backward(const Block& block, const Parameters& p, Parameters& grads,
                            const std::string& name, const Values& x, const Values& dy) {
  const int n = block.hidden;
  const Values& w = p.at(name + ".weight");
  Values dx(x.size());
  Values dw(n), db(n);
  for (int r = 0; r < block.rows(); ++r) {
    const Moments m = moments(block, &x[r * n]);
    const auto z = [&](int i) { return (x[r * n + i] - m.mean) * m.inverse; };
    double mean_g = 0;
    double mean_gz = 0;
    for (int i = 0; i < n; ++i) {
      const double g = dy[r * n + i] * w[i];
      mean_g += g / n;
      mean_gz += g * z(i) / n;
      dw[i] += dy[r * n + i] * z(i);
      db[i] += dy[r * n + i];
    }
    if (block.rms_norm) mean_g = 0;
    for (int i = 0; i < n; ++i) {
      dx[r * n + i] = m.inverse * (dy[r * n + i] * w[i] - mean_g - z(i) * mean_gz);
    }
  }
  grads[name + ".weight"] = dw;
  if (find(p, name + ".bias")) grads[name + ".bias"] = db;
  return dx;
}

// ---- rotary positions

// Rotates a head's pairs (i, i + dims / 2) by position * base^(-2 i / dims); direction -1 undoes
// it, which is also its gradient.
inline void rotate(const Block& block, double* head, int position, int direction) {
  const int dims = block.rope_dims > 0 ? block.rope_dims : block.head_dim();
  for (int i = 0; i < dims / 2; ++i) {
    const double angle = direction * position * std::pow(block.rope_base, -2.0 * i / dims);
    const double a = head[i];
    const double b = head[i + dims / 2];
    head[i] = a * std::cos(angle) - b * std::sin(angle);
    head[i + dims / 2] = b * std::cos(angle) + a * std::sin(angle);
  }
}

// Rotates all queries and keys of the projection in place.
inline void rotate_all(const Block& block, Values& qkv, int direction) {
  if (!block.rope) return;
  const int per_group = block.heads / block.kv_heads + 2;
  for (int r = 0; r < block.rows(); ++r) {
    for (int group = 0; group < block.kv_heads; ++group) {
      for (int i = 0; i < per_group - 1; ++i) {  // the last is the value
        rotate(block, &qkv[r * block.qkv() + group * block.group_rows() + i * block.head_dim()],
               r % block.seq, direction);
      }
    }
  }
}

// ---- attention core: qkv [rows, per kv head (queries, key, value)] to [rows, hidden]

// Where a head's query and its group's key and value begin in a row of qkv.
struct HeadPlace {
  int query, key, value;
};

inline HeadPlace place_of(const Block& block, int head) {
  const int shared = block.heads / block.kv_heads;
  const int begin = head / shared * block.group_rows();
  const int d = block.head_dim();
  return {begin + head % shared * d, begin + shared * d, begin + (shared + 1) * d};
}

// Attention weights of the query at (b, head, t): softmax over the visible positions.
inline Values attention_weights(const Block& block, const Values& qkv, int b, int head, int t) {
  const int d = block.head_dim();
  const HeadPlace place = place_of(block, head);
  const int visible = block.causal ? t + 1 : block.seq;
  Values weights(visible);
  double largest = -INFINITY;
  for (int s = 0; s < visible; ++s) {
    double score = 0;
    for (int i = 0; i < d; ++i) {
      score += qkv[(b * block.seq + t) * block.qkv() + place.query + i] *
               qkv[(b * block.seq + s) * block.qkv() + place.key + i];
    }
    weights[s] = score / std::sqrt(d);
    largest = std::max(largest, weights[s]);
  }
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - largest);
  for (double& w : weights) w /= sum;
  return weights;
}

inline Values attention(const Block& block, const Values& qkv) {
  const int d = block.head_dim();
  Values y(static_cast<std::size_t>(block.rows()) * block.hidden);
  for (int b = 0; b < block.batch; ++b) {
    for (int head = 0; head < block.heads; ++head) {
      const HeadPlace place = place_of(block, head);
      for (int t = 0; t < block.seq; ++t) {
        const Values weights = attention_weights(block, qkv, b, head, t);
        for (int s = 0; s < static_cast<int>(weights.size()); ++s) {
          for (int i = 0; i < d; ++i) {
            y[(b * block.seq + t) * block.hidden + head * d + i] +=
                weights[s] * qkv[(b * block.seq + s) * block.qkv() + place.value + i];
          }
        }
      }
    }
  }
  return y;
}

inline Values attention_backward(const Block& block, const Values& qkv, const Values& dy) {
  const int d = block.head_dim();
  Values dqkv(qkv.size());
  for (int b = 0; b < block.batch; ++b) {
    for (int head = 0; head < block.heads; ++head) {
      const HeadPlace place = place_of(block, head);
      for (int t = 0; t < block.seq; ++t) {
        const Values weights = attention_weights(block, qkv, b, head, t);
        const double* dy_t = &dy[(b * block.seq + t) * block.hidden + head * d];
        const double* q = &qkv[(b * block.seq + t) * block.qkv() + place.query];
        double* dq = &dqkv[(b * block.seq + t) * block.qkv() + place.query];
        const int visible = static_cast<int>(weights.size());
        Values dweights(visible);
        double mean = 0;  // of dweights under the weights
        for (int s = 0; s < visible; ++s) {
          const int row = (b * block.seq + s) * block.qkv();
          for (int i = 0; i < d; ++i) {
            dweights[s] += dy_t[i] * qkv[row + place.value + i];
            dqkv[row + place.value + i] += weights[s] * dy_t[i];
          }
          mean += weights[s] * dweights[s];
        }
        for (int s = 0; s < visible; ++s) {
          const int row = (b * block.seq + s) * block.qkv();
          const double dscore = weights[s] * (dweights[s] - mean) / std::sqrt(d);
          for (int i = 0; i < d; ++i) {
            dq[i] += dscore * qkv[row + place.key + i];
            dqkv[row + place.key + i] += dscore * q[i];
          }
        }
      }
    }
  }
  return dqkv;
}

// ---- activation: up [rows, up()] to [rows, ffn]

// Value and derivative.
struct Point {
  double y, dy;
};

inline Point gelu_erf(double x) {
  const double cdf = 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
  const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  return {x * cdf, cdf + x * density};
}

inline Point gelu_tanh(double x) {
  const double c = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  const double dt = (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * dt};
}

inline Point silu(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return {x * s, s * (1 + x * (1 - s))};
}

inline Values activate(const Block& block, const Values& up) {
  Values y(static_cast<std::size_t>(block.rows()) * block.ffn);
  for (int r = 0; r < block.rows(); ++r) {
    const double* u = &up[r * block.up()];
    for (int i = 0; i < block.ffn; ++i) {
      y[r * block.ffn + i] = block.activation == Block::swiglu     ? silu(u[i]).y * u[block.ffn + i]
                             : block.activation == Block::gelu_erf ? gelu_erf(u[i]).y
                                                                   : gelu_tanh(u[i]).y;
    }
  }
  return y;
}

inline Values activate_backward(const Block& block, const Values& up, const Values& dy) {
  Values dup(up.size());
  for (int r = 0; r < block.rows(); ++r) {
    const double* u = &up[r * block.up()];
    double* du = &dup[r * block.up()];
    for (int i = 0; i < block.ffn; ++i) {
      const double g = dy[r * block.ffn + i];
      if (block.activation == Block::swiglu) {
        const Point gate = silu(u[i]);
        du[i] = g * gate.dy * u[block.ffn + i];
        du[block.ffn + i] = g * gate.y;
      } else {
        du[i] = g * (block.activation == Block::gelu_erf ? gelu_erf(u[i]) : gelu_tanh(u[i])).dy;
      }
    }
  }
  return dup;
}

// ---- the block

// Every intermediate of a forward pass.
struct Trace {
  Values x, normed, qkv, attended, middle, normed2, up, active, y;
};

inline Values sum(const Values& a, const Values& b) {
  Values y(a);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += b[i];
  return y;
}

inline Trace forward(const Block& block, const Parameters& p, const Values& x) {
  const int rows = block.rows();
  const int h = block.hidden;
  Trace t;
  t.x = x;
  t.normed = norm(block, p, "input_norm", x);
  t.qkv = linear(p, "attention.qkv", t.normed, rows, h, block.qkv());
  rotate_all(block, t.qkv, 1);
  t.attended = attention(block, t.qkv);
  t.middle = sum(x, linear(p, "attention.out", t.attended, rows, h, h));
  t.normed2 = norm(block, p, "mlp_norm", t.middle);
  t.up = linear(p, "mlp.up", t.normed2, rows, h, block.up());
  t.active = activate(block, t.up);
  t.y = sum(t.middle, linear(p, "mlp.down", t.active, rows, block.ffn, h));
  return t;
}

// Gradients of sum(y * dy).
inline Gradients backward(const Block& block, const Parameters& p, const Trace& t,
                          const Values& dy) {
  const int rows = block.rows();
  const int h = block.hidden;
  Gradients g;
  Parameters& dp = g.parameters;
  Values d = linear_backward(p, dp, "mlp.down", t.active, dy, rows, block.ffn, h);
  d = activate_backward(block, t.up, d);
  d = linear_backward(p, dp, "mlp.up", t.normed2, d, rows, h, block.up());
  const Values dmiddle = sum(dy, norm_backward(block, p, dp, "mlp_norm", t.middle, d));
  d = linear_backward(p, dp, "attention.out", t.attended, dmiddle, rows, h, h);
  d = attention_backward(block, t.qkv, d);
  rotate_all(block, d, -1);
  d = linear_backward(p, dp, "attention.qkv", t.normed, d, rows, h, block.qkv());
  g.dx = sum(dmiddle, norm_backward(block, p, dp, "input_norm", t.x, d));
  return g;
}

}  // namespace trireme::oracle
