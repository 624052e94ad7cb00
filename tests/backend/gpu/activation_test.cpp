// Tests of activations and rotary embeddings on the GPU against the CPU.
#include "backend/gpu/both_devices.h"
#include "backend/gpu_workspace.h"

namespace trireme {
namespace {

constexpr ActivationKind kinds[] = {ActivationKind::gelu_tanh, ActivationKind::gelu_erf,
                                    ActivationKind::silu,      ActivationKind::squared_relu,
                                    ActivationKind::tanh,      ActivationKind::swiglu,
                                    ActivationKind::geglu};

// Returns all kinds, and the gate of gpt-oss with a clamp that affects some values and with one
// that affects none.
std::vector<ActivationRule> rules() {
  std::vector<ActivationRule> all(std::begin(kinds), std::end(kinds));
  for (const double clamp : {0.0, 1.5}) {
    ActivationRule& rule = all.emplace_back(ActivationKind::swiglu);
    rule.gate_alpha = 1.702;
    rule.gate_offset = 1;
    rule.clamp = clamp;
  }
  return all;
}

class Activation : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(Activation);

TEST_P(Activation, HasTheCpusValuesAndSlopes) {
  const std::int64_t rows = 3;
  for_storage_types([&]<class T>(T) {
    for (const std::int64_t cols : {64, 531}) {
      for (const ActivationRule& rule : rules()) {
        SCOPED_TRACE(static_cast<int>(rule.kind));
        SCOPED_TRACE(rule.clamp);
        const std::size_t count = static_cast<std::size_t>(rows * cols);
        const std::size_t in = is_gated(rule.kind) ? 2 * count : count;
        const auto values = normal_values<T>(in, 1, 3);
        expect_close(on_both([&](Device& device) {
                       const OnDevice<T> x(device, values), y(device, count);
                       device.kernels<T>().activation(device.queue(), rule, y.get(), x.get(), rows,
                                                      cols);
                       return y.values();
                     }),
                     tolerance_of<T>());
        expect_close(on_both([&](Device& device) {
                       const OnDevice<T> x(device, values), dy(device, normal_values<T>(count, 2));
                       const OnDevice<T> dx(device, in);
                       device.kernels<T>().activation_grad(
                           device.queue(), rule, {.dx = dx.get(), .dy = dy.get(), .x = x.get()},
                           rows, cols);
                       return dx.values();
                     }),
                     tolerance_of<T>());
      }
    }
  });
}

// The gradient of a bias that is made in passing has the bits of bias_grad.
TEST_P(Activation, SumsRowsAsBiasGrad) {
  for_storage_types([&]<class T>(T) {
    for (const ActivationKind kind : kinds) {
      if (is_gated(kind)) continue;
      const std::int64_t cols = kind == ActivationKind::gelu_tanh ? 531 : 64;
      const std::int64_t rows = 70;
      const auto count = static_cast<std::size_t>(rows * cols);
      const auto width = static_cast<std::size_t>(cols);
      const OnDevice<T> x(gpu_, normal_values<T>(count, 1)), dy(gpu_, normal_values<T>(count, 2));
      const OnDevice<T> dx(gpu_, count), want(gpu_, count);
      const OnDevice<float> dbias(gpu_, normal_values<float>(width, 3));
      const OnDevice<float> want_dbias(gpu_, normal_values<float>(width, 3));
      const GuardedScratch workspace(gpu_, gpu::bias_grad_workspace(rows, cols));
      const auto& k = gpu_.kernels<T>();
      k.activation_grad(gpu_.queue(), kind,
                        {.dx = dx.get(),
                         .dy = dy.get(),
                         .x = x.get(),
                         .dbias = dbias.get(),
                         .accumulate = true,
                         .workspace = workspace.as<float>()},
                        rows, cols);
      EXPECT_TRUE(workspace.was_kept_to());
      k.activation_grad(gpu_.queue(), kind, {.dx = want.get(), .dy = dy.get(), .x = x.get()}, rows,
                        cols);
      k.bias_grad(gpu_.queue(), want_dbias.get(), true, want.get(), rows, cols,
                  workspace.as<float>());
      EXPECT_EQ(as_floats(dx.values()), as_floats(want.values()));
      EXPECT_EQ(dbias.values(), want_dbias.values());
    }
  });
}

TEST_P(Activation, KeepsTheLeftTailOfTheNormalDistribution) {
  const std::vector<float> x = {-1, -3, -5, -8, -10};
  const auto [expected, got] = on_both([&](Device& device) {
    const OnDevice<float> values(device, x);
    device.kernels<float>().activation(device.queue(), ActivationKind::gelu_erf, values.get(),
                                       values.get(), 1, 5);
    return values.values();
  });
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(got[i] / expected[i], 1, 2e-5) << "at " << x[i];
}

class Rope : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(Rope);

struct RopeCase {
  std::int64_t groups, queries, head_dim, rotary_dim;
  bool positions;
  int direction;
  bool factors = false;
};

TEST_P(Rope, RotatesAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const RopeCase& c :
         {RopeCase{2, 1, 64, 64, false, 1}, RopeCase{2, 3, 32, 16, true, -1},
          RopeCase{1, 2, 10, 6, false, 1}, RopeCase{3, 2, 128, 128, true, 1},
          RopeCase{2, 3, 64, 32, true, 1, true}, RopeCase{1, 2, 10, 6, false, -1, true},
          RopeCase{2, 2, 16, 0, true, 1, true}}) {
      AttentionShape shape{};
      shape.batch = 2, shape.seq = 3, shape.groups = c.groups;
      shape.queries_per_group = c.queries, shape.head_dim = c.head_dim;
      const auto qkv = normal_values<T>(static_cast<std::size_t>(6 * shape.qkv_cols()), 1);
      const auto angles = static_cast<std::size_t>(9 * c.rotary_dim / 2);
      expect_close(on_both([&](Device& device) {
                     const OnDevice<T> x(device, qkv);
                     const OnDevice<float> cos(device, normal_values<float>(angles, 2));
                     const OnDevice<float> sin(device, normal_values<float>(angles, 3));
                     const OnDevice<std::int32_t> positions(device, {5, 0, 8, 1, 1, 7});
                     const OnDevice<float> factors(device, normal_values<float>(9, 4));
                     device.kernels<T>().rope(device.queue(), x.get(), shape, c.rotary_dim,
                                              cos.get(), sin.get(),
                                              c.factors ? factors.get() : nullptr,
                                              c.positions ? positions.get() : nullptr, c.direction);
                     return x.values();
                   }),
                   tolerance_of<T>());
    }
  });
}

}  // namespace
}  // namespace trireme
