// Tests of the router's GEMMs and of moving rows to their experts and back, GPU against CPU.
#include <numeric>

#include "backend/gpu/both_devices.h"

namespace trireme {
namespace {

class Experts : public OnBothWaves {
 protected:
  // A multiple of a pack, not a multiple, and more than the threads of a block process at once.
  static constexpr std::int64_t widths[] = {24, 37, 1160};
};
TRIREME_ON_BOTH_WAVES(Experts);

constexpr std::int64_t expert_rows = 11, expert_count = 6, expert_top_k = 3;
constexpr auto row_choices = static_cast<std::size_t>(expert_rows * expert_top_k);
// Number of rows taken: one more than the number of choices kept.
constexpr std::int64_t taken_rows = 30;

std::size_t elements_of(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(rows * cols);
}

// Some choices are dropped; the others have shuffled places.
std::vector<std::int32_t> places_of_rows() {
  std::vector<std::int32_t> places(row_choices, -1);
  std::int32_t next = 0;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (i % 8 != 5) places[i] = next++;
  EXPECT_EQ(next, taken_rows - 1);
  for (std::int32_t& place : places)
    if (place >= 0) place = place * 10 % (taken_rows - 1);
  return places;
}
const std::vector<std::int32_t> begins_of_experts = {0, 4, 4, 11, 20, 28, taken_rows - 1};

// Uses numbers of rows for tiles of all sizes.
TEST_P(Experts, RouterIsTheCpus) {
  for_storage_types([&]<class T>(T) {
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{expert_rows, 24},
                                     {expert_rows, 37},
                                     {expert_rows, 1160},
                                     {40, 24},
                                     {8100, 8}}) {
      const auto run = [&, rows = rows, cols = cols](Device& device) {
        const OnDevice<T> x(device, normal_values<T>(elements_of(rows, cols), 1));
        const OnDevice<T> weight(device, normal_values<T>(elements_of(expert_count, cols), 2));
        const OnDevice<T> bias(device, normal_values<T>(expert_count, 3));
        const OnDevice<float> logits(device, elements_of(rows, expert_count));
        device.kernels<T>().router(device.queue(), logits.get(), x.get(), weight.get(), bias.get(),
                                   rows, cols, expert_count);
        return logits.values();
      };
      expect_close(on_both(run), 1e-5);
    }
  });
}

// Uses fewer rows than share a partial sum of the weight gradient, and more.
TEST_P(Experts, RouterHasTheCpusGradients) {
  for_storage_types([&]<class T>(T) {
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{expert_rows, 24},
                                     {expert_rows, 37},
                                     {expert_rows, 1160},
                                     {70, 72}}) {
      for (const bool adds : {false, true}) {
        const auto run = [&, rows = rows, cols = cols](Device& device) {
          const OnDevice<T> x(device, normal_values<T>(elements_of(rows, cols), 1));
          const OnDevice<T> weight(device, normal_values<T>(elements_of(expert_count, cols), 2));
          const OnDevice<T> dx(device, normal_values<T>(elements_of(rows, cols), 3));
          const OnDevice<float> dlogits(device,
                                        normal_values<float>(elements_of(rows, expert_count), 4));
          const OnDevice<float> dweight(device,
                                        normal_values<float>(elements_of(expert_count, cols), 5));
          const Kernels<T>& kernels = device.kernels<T>();
          kernels.router_input_grad(device.queue(), dx.get(), adds ? dx.get() : nullptr,
                                    dlogits.get(), weight.get(), rows, cols, expert_count);
          kernels.router_weight_grad(device.queue(), dweight.get(), adds, dlogits.get(), x.get(),
                                     rows, cols, expert_count);
          return std::pair{dx.values(), dweight.values()};
        };
        const auto [expected, got] = on_both(run);
        expect_close(std::pair{expected.first, got.first}, tolerance_of<T>());
        expect_close(std::pair{expected.second, got.second}, 1e-5);
      }
    }
  });
}

TEST_P(Experts, PermuteAndUnpermuteRowsAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const std::int64_t cols : widths) {
      const auto both = on_both([&](Device& device) {
        const OnDevice<T> x(device, normal_values<T>(elements_of(expert_rows, cols), 1));
        const OnDevice<std::int32_t> places(device, places_of_rows());
        const OnDevice<std::int32_t> offsets(device, begins_of_experts);
        const OnDevice<T> spread(device, normal_values<T>(elements_of(taken_rows, cols), 2));
        const OnDevice<T> scaled(device, normal_values<T>(elements_of(taken_rows, cols), 2));
        const OnDevice<T> collected(device, elements_of(expert_rows, cols));
        const OnDevice<float> weights(device, normal_values<float>(row_choices, 3));
        const Kernels<T>& kernels = device.kernels<T>();
        const PermuteShape shape{expert_rows, cols, taken_rows, expert_top_k, expert_count};
        kernels.permute_rows(device.queue(), shape, spread.get(), x.get(), nullptr, places.get(),
                             offsets.get());
        kernels.permute_rows(device.queue(), shape, scaled.get(), x.get(), weights.get(),
                             places.get(), offsets.get());
        kernels.unpermute_rows(device.queue(), collected.get(), spread.get(), places.get(),
                               expert_rows, cols, expert_top_k);
        return std::tuple{spread.values(), scaled.values(), collected.values()};
      });
      const auto& [spread, scaled, collected] = both.first;
      expect_equal(std::pair{spread, std::get<0>(both.second)});
      expect_close(std::pair{scaled, std::get<1>(both.second)}, tolerance_of<T>());
      expect_equal(std::pair{collected, std::get<2>(both.second)});
    }
  });
}

TEST_P(Experts, CombineRowsAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const std::int64_t cols : widths) {
      const auto both = on_both([&](Device& device) {
        const OnDevice<T> x(device, normal_values<T>(elements_of(taken_rows, cols), 1));
        const OnDevice<T> dy(device, normal_values<T>(elements_of(expert_rows, cols), 2));
        const OnDevice<float> weights(device, normal_values<float>(row_choices, 3));
        const OnDevice<std::int32_t> places(device, places_of_rows());
        const OnDevice<std::int32_t> offsets(device, begins_of_experts);
        const OnDevice<T> y(device, elements_of(expert_rows, cols));
        const OnDevice<T> dx(device, normal_values<T>(elements_of(taken_rows, cols), 4));
        const OnDevice<float> dweights(device, normal_values<float>(row_choices, 5));
        const Kernels<T>& kernels = device.kernels<T>();
        kernels.combine_rows(device.queue(), y.get(), x.get(), weights.get(), places.get(),
                             expert_rows, cols, expert_top_k);
        kernels.combine_rows_grad(device.queue(),
                                  {expert_rows, cols, taken_rows, expert_top_k, expert_count},
                                  {.dx = dx.get(),
                                   .dweights = dweights.get(),
                                   .dy = dy.get(),
                                   .x = x.get(),
                                   .weights = weights.get(),
                                   .places = places.get(),
                                   .offsets = offsets.get()});
        return std::tuple{y.values(), dx.values(), dweights.values()};
      });
      expect_close(std::pair{std::get<0>(both.first), std::get<0>(both.second)}, tolerance_of<T>());
      expect_close(std::pair{std::get<1>(both.first), std::get<1>(both.second)}, tolerance_of<T>());
      expect_close(std::pair{std::get<2>(both.first), std::get<2>(both.second)}, 1e-5);
    }
  });
}

TEST_P(Experts, GateRowsAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const std::int64_t cols : widths) {
      const auto both = on_both([&](Device& device) {
        const OnDevice<T> x(device, normal_values<T>(elements_of(expert_rows, cols), 1));
        const OnDevice<T> dy(device, normal_values<T>(elements_of(expert_rows, cols), 2));
        const OnDevice<float> gates(device, normal_values<float>(expert_rows, 3));
        const OnDevice<T> dx(device, elements_of(expert_rows, cols));
        const OnDevice<float> dgates(device, expert_rows);
        const Kernels<T>& kernels = device.kernels<T>();
        kernels.gate_rows_grad(device.queue(), dx.get(), dgates.get(), dy.get(), x.get(),
                               gates.get(), expert_rows, cols);
        kernels.gate_rows(device.queue(), x.get(), x.get(), gates.get(), expert_rows, cols);
        return std::tuple{x.values(), dx.values(), dgates.values()};
      });
      expect_close(std::pair{std::get<0>(both.first), std::get<0>(both.second)}, tolerance_of<T>());
      expect_close(std::pair{std::get<1>(both.first), std::get<1>(both.second)}, tolerance_of<T>());
      expect_close(std::pair{std::get<2>(both.first), std::get<2>(both.second)}, 1e-5);
    }
  });
}

TEST_P(Experts, MixRowsAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const std::int64_t cols : widths) {
      const std::size_t count = elements_of(expert_rows, cols);
      const auto both = on_both([&](Device& device) {
        const OnDevice<T> a(device, normal_values<T>(count, 1)),
            b(device, normal_values<T>(count, 2));
        const OnDevice<T> dy(device, normal_values<T>(count, 3));
        const OnDevice<T> logits(device, normal_values<T>(2 * expert_rows, 4));
        const OnDevice<T> da(device, count), db(device, count), dlogits(device, 2 * expert_rows);
        const Kernels<T>& kernels = device.kernels<T>();
        kernels.mix_rows_grad(device.queue(), da.get(), db.get(), dlogits.get(), dy.get(), a.get(),
                              b.get(), logits.get(), expert_rows, cols);
        kernels.mix_rows(device.queue(), b.get(), a.get(), b.get(), logits.get(), expert_rows,
                         cols);
        return std::tuple{b.values(), da.values(), db.values(), dlogits.values()};
      });
      expect_close(std::pair{std::get<0>(both.first), std::get<0>(both.second)}, tolerance_of<T>());
      expect_close(std::pair{std::get<1>(both.first), std::get<1>(both.second)}, tolerance_of<T>());
      expect_close(std::pair{std::get<2>(both.first), std::get<2>(both.second)}, tolerance_of<T>());
      expect_close(std::pair{std::get<3>(both.first), std::get<3>(both.second)}, tolerance_of<T>());
    }
  });
}

// --- Muon's matrices ---

class Matrices : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(Matrices);

TEST_P(Matrices, AreBroughtToNormOneAndBackAsOnTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{70, 33}, {5, 100}}) {
      for (const bool transpose : {false, true}) {
        const std::size_t count = elements_of(rows, cols);
        const auto both = on_both([&](Device& device) {
          const OnDevice<float> x(device, normal_values<float>(count, 1, 1e-3f));
          const OnDevice<ExactSum> squares(device, 1);
          const OnDevice<T> unit(device, count);
          const OnDevice<float> back(device, count);
          const Kernels<T>& kernels = device.kernels<T>();
          kernels.add_squares(device.queue(), squares.get(), x.get(),
                              static_cast<std::int64_t>(count), square_block);
          kernels.normalize_matrix(device.queue(), unit.get(), x.get(), squares.get(), rows, cols,
                                   transpose);
          kernels.scale_matrix(device.queue(), back.get(), unit.get(), 0.3, rows, cols, transpose);
          return std::pair{unit.values(), back.values()};
        });
        expect_close(std::pair{both.first.first, both.second.first}, tolerance_of<T>());
        expect_close(std::pair{both.first.second, both.second.second}, tolerance_of<T>());
      }
    }
  });
}

TEST_P(Matrices, AreAddedAsOnTheCpu) {
  for_storage_types([&]<class T>(T) {
    expect_close(on_both([&](Device& device) {
                   const OnDevice<T> y(device, normal_values<T>(1013, 1));
                   const OnDevice<T> x(device, normal_values<T>(1013, 2));
                   device.kernels<T>().combine(device.queue(), y.get(), 3.4445, x.get(), -4.775,
                                               1013);
                   return y.values();
                 }),
                 tolerance_of<T>());
  });
}

}  // namespace
}  // namespace trireme
