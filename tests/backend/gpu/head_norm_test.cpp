// Tests of RMSNorm of queries and keys, per head or over all heads, and its gradient: the GPU
// against the CPU.
#include "backend/cpu/kernels.h"
#include "backend/gpu/both_devices.h"
#include "backend/gpu_workspace.h"

namespace trireme {
namespace {

constexpr HeadNormShape zero_centered(HeadNormShape shape) {
  shape.zero_centered = true;
  return shape;
}

class HeadNorm : public OnBothWaves {
 protected:
  // Heads that fit a quarter of a wave of 32, half of it, and all; some not multiples of a pack.
  static constexpr HeadNormShape shapes[] = {{{2, 3, 64, 1e-5}, 5},
                                             {{1, 1, 7, 1e-6}, 37},
                                             {{3, 2, 128, 1e-6}, 9},
                                             {{2, 1, 100, 1e-5}, 3},
                                             {{1, 4, 256, 1e-6}, 2},
                                             {{2, 3, 64, 1e-5, true}, 5},
                                             {{3, 1, 7, 1e-6, true}, 37},
                                             {{5, 2, 256, 1e-6, true}, 3},
                                             {{2, 3, 64, 1e-5, true, 12, 4}, 5},
                                             {{1, 2, 7, 1e-6, true, 4, 1, false}, 37},
                                             zero_centered({{3, 2, 100, 1e-6}, 9}),
                                             zero_centered({{2, 3, 64, 1e-5, true}, 5}),
                                             zero_centered({{1, 2, 7, 1e-6, true, 4, 1}, 37})};

  std::int64_t grad_workspace(Device& device, const HeadNormShape& s) {
    return &device == &gpu_ ? gpu::norm_grad_workspace(s.rows, s.query_weights())
                            : 4 * cpu::norm_grad_workspace(s.rows, s.query_weights());
  }
};
TRIREME_ON_BOTH_WAVES(HeadNorm);

std::size_t elements(const HeadNormShape& s) {
  return static_cast<std::size_t>(s.rows * s.qkv_cols());
}

// Returns whether the heads are those of one rank of several.
bool is_shared(const HeadNormShape& s) {
  return s.all_queries > 0;
}

// Returns y and rstd, one after the other, preceded by the sums that ranks reduce.
template <class T>
std::vector<float> forward_on(Device& device, const HeadNormShape& s) {
  const auto width = static_cast<std::size_t>(s.query_weights());
  const auto key_width = static_cast<std::size_t>(s.key_weights());
  const OnDevice<T> x(device, normal_values<T>(elements(s), 1)), y(device, elements(s));
  const OnDevice<T> query_weight(device, normal_values<T>(width, 2));
  const OnDevice<T> key_weight(device, normal_values<T>(key_width, 3));
  const OnDevice<float> rstd(device, static_cast<std::size_t>(s.rows * s.norms()));
  const OnDevice<float> sums(device, static_cast<std::size_t>(s.rows * 2));
  std::vector<float> all;
  if (is_shared(s)) {
    device.kernels<T>().head_sums(device.queue(), s, sums.get(), x.get(), nullptr, nullptr,
                                  nullptr);
    all = sums.values();
  }
  device.kernels<T>().head_norm(device.queue(), s, y.get(), rstd.get(), x.get(), query_weight.get(),
                                key_weight.get(), is_shared(s) ? sums.get() : nullptr);
  const auto made = as_floats(y.values()), statistics = rstd.values();
  all.insert(all.end(), made.begin(), made.end());
  all.insert(all.end(), statistics.begin(), statistics.end());
  return all;
}

TEST_P(HeadNorm, NormalizesAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const HeadNormShape& s : shapes) {
      SCOPED_TRACE(s.head_dim);
      expect_close(on_both([&](Device& d) { return forward_on<T>(d, s); }), tolerance_of<T>());
    }
  });
}

enum class Weights { learn, are_constant };

// Returns dx and the gradients of both weights, which stay what they were if weights are constant.
template <class T>
std::vector<float> backward_on(Device& device, const HeadNormShape& s, bool accumulate,
                               std::int64_t workspace_bytes, Weights weights = Weights::learn) {
  const auto width = static_cast<std::size_t>(s.query_weights());
  const auto key_width = static_cast<std::size_t>(s.key_weights());
  const OnDevice<T> dy(device, normal_values<T>(elements(s), 1));
  const OnDevice<T> x(device, normal_values<T>(elements(s), 2)), dx(device, elements(s));
  const OnDevice<T> query_weight(device, normal_values<T>(width, 3));
  const OnDevice<T> key_weight(device, normal_values<T>(key_width, 4));
  const OnDevice<float> dquery(device, normal_values<float>(width, 5));
  const OnDevice<float> dkey(device, normal_values<float>(key_width, 6));
  const OnDevice<float> rstd(
      device, std::vector<float>(static_cast<std::size_t>(s.rows * s.norms()), 1.25f));
  const OnDevice<float> sums(device, static_cast<std::size_t>(s.rows * 2));
  std::vector<float> all;
  if (is_shared(s)) {
    device.kernels<T>().head_sums(device.queue(), s, sums.get(), x.get(), dy.get(),
                                  query_weight.get(), key_weight.get());
    all = sums.values();
  }
  const GuardedScratch workspace(device, workspace_bytes);
  const bool learn = weights == Weights::learn;
  device.kernels<T>().head_norm_grad(device.queue(), s,
                                     {.dx = dx.get(),
                                      .dquery_weight = learn ? dquery.get() : nullptr,
                                      .dkey_weight = learn ? dkey.get() : nullptr,
                                      .accumulate = accumulate,
                                      .dy = dy.get(),
                                      .x = x.get(),
                                      .rstd = rstd.get(),
                                      .query_weight = query_weight.get(),
                                      .key_weight = key_weight.get(),
                                      .sums = is_shared(s) ? sums.get() : nullptr,
                                      .workspace = workspace.as<float>()});
  EXPECT_TRUE(workspace.was_kept_to());
  for (const auto& gradient : {as_floats(dx.values()), dquery.values(), dkey.values()})
    all.insert(all.end(), gradient.begin(), gradient.end());
  return all;
}

TEST_P(HeadNorm, GivesTheCpusGradients) {
  for_storage_types([&]<class T>(T) {
    for (const HeadNormShape& s : shapes) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(s.head_dim);
        expect_close(on_both([&](Device& d) {
                       return backward_on<T>(d, s, accumulate, grad_workspace(d, s));
                     }),
                     tolerance_of<T>());
      }
      if (s.all_heads) continue;
      expect_close(on_both([&](Device& d) {
                     return backward_on<T>(d, s, false, grad_workspace(d, s),
                                           Weights::are_constant);
                   }),
                   tolerance_of<T>());
    }
  });
}

}  // namespace
}  // namespace trireme
