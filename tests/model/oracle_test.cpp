// The oracle block against finite differences: every parameter and the input.
#include <gtest/gtest.h>

#include "model/golden/golden_weights.h"
#include "model/oracle_block.h"

namespace trireme::oracle {
namespace {

Values values_of(const std::string& name, int count) {
  Values values(count);
  for (int i = 0; i < count; ++i) values[i] = golden::symmetric(name, i);
  return values;
}

Parameters parameters_of(const Block& block, bool bias) {
  Parameters p;
  const auto add = [&](const std::string& name, int count, double offset, double scale) {
    p[name] = values_of(name, count);
    for (double& v : p[name]) v = offset + scale * v;
  };
  const auto linear = [&](const std::string& name, int in, int out) {
    add(name + ".weight", in * out, 0, 0.5);
    if (bias) add(name + ".bias", out, 0, 0.3);
  };
  for (const std::string name : {"input_norm", "mlp_norm"}) {
    add(name + ".weight", block.hidden, 1, 0.3);
    if (!block.rms_norm) add(name + ".bias", block.hidden, 0, 0.3);
  }
  linear("attention.qkv", block.hidden, block.qkv());
  linear("attention.out", block.hidden, block.hidden);
  linear("mlp.up", block.hidden, block.up());
  linear("mlp.down", block.ffn, block.hidden);
  return p;
}

double objective(const Block& block, const Parameters& p, const Values& x, const Values& dy) {
  const Values y = forward(block, p, x).y;
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
  return sum;
}

// Five-point differences of `objective` with respect to each element of `at`.
template <class Objective>
void expect_gradient(const char* name, Values& at, const Values& gradient, Objective objective) {
  ASSERT_EQ(at.size(), gradient.size()) << name;
  constexpr double kStep = 1e-3;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double before = at[i];
    const auto value = [&](double offset) {
      at[i] = before + offset;
      return objective();
    };
    const double slope =
        (8 * (value(kStep) - value(-kStep)) - value(2 * kStep) + value(-2 * kStep)) / (12 * kStep);
    at[i] = before;
    ASSERT_NEAR(gradient[i], slope, 1e-8 * std::max(1.0, std::abs(slope))) << name << " at " << i;
  }
}

void expect_all_gradients(const Block& block, bool bias) {
  Parameters p = parameters_of(block, bias);
  Values x = values_of("x", block.rows() * block.hidden);
  const Values dy = values_of("dy", block.rows() * block.hidden);
  const Gradients g = backward(block, p, forward(block, p, x), dy);
  ASSERT_EQ(g.parameters.size(), p.size());
  for (auto& [name, values] : p) {
    expect_gradient(name.c_str(), values, g.parameters.at(name),
                    [&] { return objective(block, p, x, dy); });
  }
  expect_gradient("x", x, g.dx, [&] { return objective(block, p, x, dy); });
}

Block gpt() {
  return {.batch = 2, .seq = 4, .hidden = 8, .heads = 2, .kv_heads = 2, .ffn = 12};
}

Block llama() {
  return {.batch = 2,
          .seq = 4,
          .hidden = 16,
          .heads = 4,
          .kv_heads = 2,
          .ffn = 10,
          .rms_norm = true,
          .rope = true,
          .activation = Block::swiglu};
}

TEST(Oracle, GptBlock) {
  expect_all_gradients(gpt(), true);
}

TEST(Oracle, GptBlockWithExactGeluSeeingBothWays) {
  Block block = gpt();
  block.activation = Block::gelu_erf;
  block.causal = false;
  expect_all_gradients(block, true);
}

TEST(Oracle, LlamaBlock) {
  expect_all_gradients(llama(), false);
}

TEST(Oracle, LlamaBlockWithPartlyRotatedHeadsAndBiases) {
  Block block = llama();
  block.rope_dims = 2;
  block.kv_heads = 1;
  expect_all_gradients(block, true);
}

// What finite differences cannot see: that the forward pass is the one that is meant.
TEST(Oracle, FirstPositionAttendsToItselfAlone) {
  const Block block = gpt();
  const Parameters p = parameters_of(block, true);
  const Trace t = forward(block, p, values_of("x", block.rows() * block.hidden));
  for (int head = 0; head < block.heads; ++head) {
    for (int i = 0; i < block.head_dim(); ++i) {
      EXPECT_EQ(t.attended[head * block.head_dim() + i], t.qkv[place_of(block, head).value + i]);
    }
  }
}

// Scores of rotated queries and keys depend on the distance of the positions alone.
TEST(Oracle, RotationKeepsDistances) {
  const Block block = llama();
  const Values q = values_of("q", block.head_dim());
  const Values k = values_of("k", block.head_dim());
  const auto score = [&](int m, int n) {
    Values a = q, b = k;
    rotate(block, a.data(), m, 1);
    rotate(block, b.data(), n, 1);
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  EXPECT_NEAR(score(3, 1), score(12, 10), 1e-12);
  EXPECT_GT(std::abs(score(3, 1) - score(4, 1)), 1e-3);
}

// ---- the golden models of PyTorch, as two oracle blocks between embedding and head

Values golden_values(const std::string& name, int count) {
  Values values(count);
  for (int i = 0; i < count; ++i) values[i] = golden::weight(name, i);
  return values;
}

Parameters golden_parameters(const Block& block, const std::string& prefix, bool bias) {
  Parameters p = parameters_of(block, bias);
  for (auto& [name, values] : p) {
    values = golden_values(prefix + name, static_cast<int>(values.size()));
  }
  return p;
}

Values golden_embedding(const Block& block, bool positions) {
  const int h = block.hidden;
  const Values word = golden_values("embedding.word.weight", golden::kVocab * h);
  const Values position = golden_values("embedding.position.weight", block.seq * h);
  Values x(static_cast<std::size_t>(block.rows()) * h);
  for (int r = 0; r < block.rows(); ++r) {
    const int t = r % block.seq;
    const int token = golden::token(0, r / block.seq, t);
    for (int i = 0; i < h; ++i)
      x[r * h + i] = word[token * h + i] + (positions ? position[t * h + i] : 0);
  }
  return x;
}

// Mean cross-entropy of the first golden batch.
double golden_loss(const Block& block, bool gpt) {
  Values x = golden_embedding(block, gpt);
  for (const std::string prefix : {"layers.0.", "layers.1."}) {
    x = forward(block, golden_parameters(block, prefix, gpt), x).y;
  }
  Parameters ends;
  ends["final_norm.weight"] = golden_values("final_norm.weight", block.hidden);
  if (gpt) ends["final_norm.bias"] = golden_values("final_norm.bias", block.hidden);
  ends["head.weight"] =
      golden_values(gpt ? "embedding.word.weight" : "head.weight", golden::kVocab * block.hidden);
  const Values logits = linear(ends, "head", norm(block, ends, "final_norm", x), block.rows(),
                               block.hidden, golden::kVocab);
  double loss = 0;
  for (int r = 0; r < block.rows(); ++r) {
    const double* row = &logits[r * golden::kVocab];
    double sum = 0;
    for (int v = 0; v < golden::kVocab; ++v) sum += std::exp(row[v]);
    loss += std::log(sum) - row[golden::token(0, r / block.seq, r % block.seq + 1)];
  }
  return loss / block.rows();
}

TEST(Oracle, GoldenModelsHaveTheFirstLossOfPyTorch) {
  Block block{.batch = golden::kBatch,
              .seq = golden::kSeq,
              .hidden = 32,
              .heads = 4,
              .kv_heads = 4,
              .ffn = 128};
  EXPECT_NEAR(golden_loss(block, true), 4.4106165933420876, 1e-12);
  block.activation = Block::gelu_erf;
  EXPECT_NEAR(golden_loss(block, true), 4.410590740086452, 1e-12);
  block.activation = Block::swiglu;
  block.kv_heads = 2;
  block.ffn = 96;
  block.rms_norm = true;
  block.rope = true;
  EXPECT_NEAR(golden_loss(block, false), 4.168385690301057, 1e-12);
}

}  // namespace
}  // namespace trireme::oracle
