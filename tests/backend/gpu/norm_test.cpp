// Tests of LayerNorm, RMSNorm and their gradients on the GPU against the CPU.
#include "backend/cpu/kernels.h"
#include "backend/gpu/both_devices.h"
#include "backend/gpu_workspace.h"

namespace trireme {
namespace {

class Norm : public OnBothWaves {
 protected:
  // Rows that fit the registers of few threads, of many threads, and of none.
  static constexpr std::int64_t widths[] = {1, 63, 64, 1000, 1032, 2056, 4104, 8200};

  std::int64_t grad_workspace(Device& device, std::int64_t rows, std::int64_t cols, int sums = 2) {
    return &device == &gpu_ ? gpu::norm_grad_workspace(rows, cols, sums)
                            : 4 * cpu::norm_grad_workspace(rows, cols, sums);
  }
};
TRIREME_ON_BOTH_WAVES(Norm);

struct Forward {
  NormKind kind;
  bool adds, drops, bias, statistics;
  bool zero_centered = false;
};

// Returns y, sum, mean and rstd, one after the other.
template <class T>
std::vector<float> forward_on(Device& device, const Forward& form, std::int64_t rows,
                              std::int64_t cols) {
  const std::size_t count = static_cast<std::size_t>(rows * cols);
  const OnDevice<T> x(device, normal_values<T>(count, 1)),
      delta(device, normal_values<T>(count, 2));
  const OnDevice<T> weight(device, normal_values<T>(static_cast<std::size_t>(cols), 3));
  const OnDevice<T> bias(device, normal_values<T>(static_cast<std::size_t>(cols), 4));
  const OnDevice<T> y(device, count);
  const std::vector<float> zeros(static_cast<std::size_t>(rows));
  const OnDevice<float> mean(device, zeros), rstd(device, zeros);
  const OnDevice<StepBlock> block(device, std::vector{StepBlock{.seed = 5, .step = 6}});
  const OnDevice<std::int64_t> samples(device, std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  const Dropout dropout{{form.drops ? 0.25f : 0.0f, 2}, block.get(), samples.get(), 2};
  // The sum overwrites x; without a sum, y does.
  T* const to = form.adds ? y.get() : x.get();
  device.kernels<T>().norm(device.queue(), {{form.kind, 1e-5, form.zero_centered}, rows, cols}, to,
                           form.statistics ? mean.get() : nullptr,
                           form.statistics ? rstd.get() : nullptr, x.get(), weight.get(),
                           form.bias ? bias.get() : nullptr, form.adds ? x.get() : nullptr,
                           form.adds ? delta.get() : nullptr, dropout);
  std::vector<float> all = as_floats((form.adds ? y : x).values());
  if (form.adds) {
    const auto sum = as_floats(x.values());
    all.insert(all.end(), sum.begin(), sum.end());
  }
  for (const auto& statistic : {mean.values(), rstd.values()})
    all.insert(all.end(), statistic.begin(), statistic.end());
  return all;
}

TEST_P(Norm, NormalizesAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const std::int64_t cols : widths) {
      for (const Forward& form : {Forward{NormKind::layer_norm, false, false, true, true},
                                  Forward{NormKind::rms_norm, true, false, false, false},
                                  Forward{NormKind::layer_norm, true, true, true, true},
                                  Forward{NormKind::rms_norm, false, false, false, true, true}}) {
        if (cols == 1 && form.kind == NormKind::layer_norm) continue;  // 0 / 0 except for eps
        SCOPED_TRACE(cols);
        expect_close(on_both([&](Device& d) { return forward_on<T>(d, form, 3, cols); }),
                     tolerance_of<T>());
      }
    }
  });
}

struct Backward {
  NormKind kind;
  bool bias, residual, accumulate;
  bool zero_centered = false;
  bool sums_dx = false, sums_dres = false;

  int sums() const { return 1 + bias + sums_dx + sums_dres; }
};

// Returns dx, dweight, dbias and the sums over the rows of dx and dres, one after the other.
template <class T>
std::vector<float> backward_on(Device& device, const Backward& form, std::int64_t rows,
                               std::int64_t cols, std::int64_t workspace_bytes) {
  const std::size_t count = static_cast<std::size_t>(rows * cols);
  const std::size_t width = static_cast<std::size_t>(cols);
  const OnDevice<T> dy(device, normal_values<T>(count, 1)), x(device, normal_values<T>(count, 2));
  const OnDevice<T> weight(device, normal_values<T>(width, 3));
  const OnDevice<T> dres(device, normal_values<T>(count, 4)), other(device, count);
  const OnDevice<T>& dx = form.residual ? dres : other;
  const OnDevice<float> dweight(device, normal_values<float>(width, 5));
  const OnDevice<float> dbias(device, normal_values<float>(width, 6));
  const OnDevice<float> dx_sum(device, normal_values<float>(width, 8));
  const OnDevice<float> dres_sum(device, normal_values<float>(width, 9));
  const OnDevice<float> mean(device, normal_values<float>(static_cast<std::size_t>(rows), 7, 0.1f));
  const OnDevice<float> rstd(device, std::vector<float>(static_cast<std::size_t>(rows), 1.25f));
  const GuardedScratch workspace(device, workspace_bytes);
  device.kernels<T>().norm_grad(device.queue(), {{form.kind, 1e-5, form.zero_centered}, rows, cols},
                                {.dx = dx.get(),
                                 .dweight = dweight.get(),
                                 .dbias = form.bias ? dbias.get() : nullptr,
                                 .dx_sum = form.sums_dx ? dx_sum.get() : nullptr,
                                 .dres_sum = form.sums_dres ? dres_sum.get() : nullptr,
                                 .accumulate = form.accumulate,
                                 .dy = dy.get(),
                                 .x = x.get(),
                                 .mean = form.kind == NormKind::layer_norm ? mean.get() : nullptr,
                                 .rstd = rstd.get(),
                                 .weight = weight.get(),
                                 .dres = form.residual ? dres.get() : nullptr,
                                 .workspace = workspace.as<float>()});
  EXPECT_TRUE(workspace.was_kept_to());
  std::vector<float> all = as_floats(dx.values());
  for (const auto& gradient :
       {dweight.values(), dbias.values(), dx_sum.values(), dres_sum.values()})
    all.insert(all.end(), gradient.begin(), gradient.end());
  return all;
}

TEST_P(Norm, GivesTheCpusGradients) {
  for_storage_types([&]<class T>(T) {
    for (const std::int64_t cols : widths) {
      for (const Backward& form :
           {Backward{NormKind::layer_norm, true, true, false},
            Backward{NormKind::rms_norm, false, false, true},
            Backward{NormKind::rms_norm, false, false, true, true},
            Backward{NormKind::layer_norm, true, true, true, false, true, true},
            Backward{NormKind::rms_norm, false, true, false, false, false, true},
            Backward{NormKind::rms_norm, false, false, true, true, true}}) {
        SCOPED_TRACE(cols);
        const std::int64_t rows = cols < 1000 ? 37 : 9;
        expect_close(on_both([&](Device& d) {
                       return backward_on<T>(d, form, rows, cols,
                                             grad_workspace(d, rows, cols, form.sums()));
                     }),
                     tolerance_of<T>());
      }
    }
  });
}

TEST_P(Norm, HasGradientsOfNoRows) {
  const auto [expected, got] = on_both([&](Device& d) {
    return backward_on<float>(d, {NormKind::layer_norm, true, false, false}, 0, 64,
                              grad_workspace(d, 0, 64));
  });
  EXPECT_EQ(expected, got);
}

}  // namespace
}  // namespace trireme
