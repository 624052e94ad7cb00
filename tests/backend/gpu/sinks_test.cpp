// Tests of attention sinks and expert biases on the GPU against the CPU.
#include "backend/gpu/both_devices.h"

namespace trireme {
namespace {

class Sinks : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(Sinks);

// Whole sequences, and a rank's two chunks in context parallelism.
std::vector<AttentionShape> sink_shapes() {
  AttentionShape whole{{2, 12, 2, 3, 16, true, 0.25}}, cut{{2, 12, 2, 3, 16, true, 0.25}};
  cut.cut = {3, {0, 9}};
  return {whole, cut};
}

TEST_P(Sinks, HasTheCpusContextAndTerms) {
  for_storage_types([&]<class T>(T) {
    for (const AttentionShape& s : sink_shapes()) {
      SCOPED_TRACE(s.cut.chunk);
      const std::int64_t rows = s.batch * (s.cut.chunk > 0 ? 2 * s.cut.chunk : s.seq);
      const auto heads = static_cast<std::size_t>(s.heads());
      const std::size_t count = static_cast<std::size_t>(rows * s.ctx_cols());
      const std::size_t statistics = static_cast<std::size_t>(rows * s.heads());
      const auto values = normal_values<T>(count, 1), grads = normal_values<T>(count, 2);
      expect_close(on_both([&](Device& device) {
                     const OnDevice<T> ctx(device, values),
                         sinks(device, normal_values<T>(heads, 3));
                     const OnDevice<float> lse(device, normal_values<float>(statistics, 4));
                     device.kernels<T>().attention_sink(device.queue(), s, ctx.get(), lse.get(),
                                                        sinks.get());
                     return ctx.values();
                   }),
                   tolerance_of<T>());
      expect_close(on_both([&](Device& device) {
                     const OnDevice<T> ctx(device, values), dctx(device, grads);
                     const OnDevice<T> sinks(device, normal_values<T>(heads, 3));
                     const OnDevice<float> lse(device, normal_values<float>(statistics, 4));
                     const OnDevice<float> terms(device, statistics);
                     device.kernels<T>().attention_sink(device.queue(), s, ctx.get(), lse.get(),
                                                        sinks.get());
                     device.kernels<T>().attention_sink_terms(device.queue(), s, terms.get(),
                                                              ctx.get(), lse.get(), dctx.get(),
                                                              sinks.get());
                     return terms.values();
                   }),
                   tolerance_of<T>());
    }
  });
}

// Groups of several blocks, one empty group, and rows after the last one.
TEST_P(Sinks, BiasesOfGroupsAreThoseOfTheCpu) {
  const GroupBiasShape s{.rows = 11, .cols = 70, .groups = 3, .stride = 75, .blocks = 2};
  const std::vector<std::int32_t> offsets{0, 2, 4, 4, 4, 9, 9};
  for_storage_types([&]<class T>(T) {
    const auto values = normal_values<T>(static_cast<std::size_t>(s.rows * s.cols), 1);
    const auto biases = normal_values<T>(static_cast<std::size_t>(s.groups * s.stride), 2);
    expect_close(on_both([&](Device& device) {
                   const OnDevice<T> y(device, values), bias(device, biases);
                   const OnDevice<std::int32_t> begins(device, offsets);
                   device.kernels<T>().add_group_bias(device.queue(), s, y.get(), bias.get(),
                                                      begins.get());
                   return y.values();
                 }),
                 tolerance_of<T>());
    for (const bool adds : {false, true}) {
      expect_close(on_both([&](Device& device) {
                     const OnDevice<T> dy(device, values);
                     const OnDevice<std::int32_t> begins(device, offsets);
                     const OnDevice<float> dbias(
                         device,
                         normal_values<float>(static_cast<std::size_t>(s.groups * s.stride), 3));
                     device.kernels<T>().group_bias_grad(device.queue(), s, dbias.get(), adds,
                                                         dy.get(), begins.get());
                     return dbias.values();
                   }),
                   1e-5);
    }
  });
}

}  // namespace
}  // namespace trireme
