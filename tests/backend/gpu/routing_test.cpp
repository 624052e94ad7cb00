// Tests of routers on the GPU against the CPU: choice, losses, gradients, and the dispatch order.
#include "backend/gpu/both_devices.h"
#include "backend/gpu_workspace.h"
#include "base/exact_sum.h"

namespace trireme {
namespace {

class Routing : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(Routing);

constexpr RouterShape router_shapes[] = {
    {{2, false, true, 1, 1, 1}, 37, 8},    {{3, false, false, 2.5, 1, 1}, 20, 70},
    {{4, true, true, 2.5, 4, 2}, 24, 16},  {{8, true, true, 1, 1, 1}, 9, 130},
    {{1, true, false, 1.5, 1, 1}, 12, 64}, {{1, false, true, 1, 1, 1}, 5, 1},
    {{6, false, true, 1, 3, 2}, 16, 12},   {{40, false, true, 1, 1, 1}, 3, 300}};

std::size_t choices_of(const RouterShape& s) {
  return static_cast<std::size_t>(s.rows * s.top_k);
}

// Some logits of a row are equal: the first expert wins.
std::vector<float> router_logits(const RouterShape& s) {
  auto logits = normal_values<float>(static_cast<std::size_t>(s.rows * s.experts), 1, 2);
  for (std::size_t i = 0; i + 3 < logits.size(); i += 5) logits[i + 3] = logits[i];
  return logits;
}

struct RoutedRows {
  std::vector<float> weights;
  std::vector<std::int32_t> chosen;
};

template <class T>
RoutedRows route_on(Device& device, const RouterShape& s, bool biased) {
  const OnDevice<float> logits(device, router_logits(s)), weights(device, choices_of(s));
  const OnDevice<std::int32_t> chosen(device, choices_of(s));
  const OnDevice<T> bias(device, normal_values<T>(static_cast<std::size_t>(s.experts), 2));
  device.kernels<T>().route(device.queue(), s, weights.get(), chosen.get(), logits.get(),
                            biased ? bias.get() : nullptr);
  return {weights.values(), chosen.values()};
}

TEST_P(Routing, ChoosesAndWeighsAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    for (const RouterShape& s : router_shapes) {
      for (const bool biased : {false, true}) {
        SCOPED_TRACE(testing::Message() << s.experts << " experts, top " << s.top_k);
        const auto [expected, got] = on_both([&](Device& d) { return route_on<T>(d, s, biased); });
        EXPECT_EQ(expected.chosen, got.chosen);
        expect_close(std::pair{expected.weights, got.weights}, 2e-6);
      }
    }
  });
}

std::vector<std::int64_t> routed_tokens_on(Device& device, const RouterShape& s,
                                           const RouterLosses& losses, std::int64_t units,
                                           bool plain) {
  const OnDevice<float> logits(device, router_logits(s));
  const OnDevice<std::int32_t> chosen(device, route_on<float>(device, s, false).chosen);
  const OnDevice<std::int64_t> counts(
      device, std::vector<std::int64_t>(static_cast<std::size_t>(units * s.experts), 77));
  device.kernels<float>().routed_tokens(device.queue(), s, losses, units, plain, counts.get(),
                                        logits.get(), chosen.get());
  return counts.values();
}

TEST_P(Routing, CountsTheChoicesOfUnitsByPlainScore) {
  for (const RouterShape& s : router_shapes) {
    for (const bool plain : {s.groups == 1, false}) {
      SCOPED_TRACE(s.experts);
      // Units of four rows; the first unit began two rows earlier.
      const RouterLosses losses{.aux_coeff = 0.1, .unit_rows = 4, .seq = 4, .first_row = 2};
      const std::int64_t units = (s.rows + 2 + 3) / 4;
      expect_equal(
          on_both([&](Device& d) { return routed_tokens_on(d, s, losses, units, plain); }));
    }
  }
}

struct RouterGrads {
  std::vector<float> dlogits, dbias, dload;
  double aux_loss, z_loss;
  std::vector<std::int64_t> kept;  // of two layers
};

template <class T>
RouterGrads route_grad_on(Device& device, const RouterShape& s, const RouterLosses& losses,
                          bool biased, bool accumulate, bool loaded = false) {
  const std::vector<std::int32_t> choice = route_on<float>(device, s, false).chosen;
  const auto experts = static_cast<std::size_t>(s.experts);
  const OnDevice<float> logits(device, router_logits(s));
  const OnDevice<float> dlogits(device, experts * static_cast<std::size_t>(s.rows));
  const OnDevice<float> dbias(device, normal_values<float>(experts, 3));
  const OnDevice<float> dload(device, normal_values<float>(experts, 5));
  std::vector<T> of_before = normal_values<T>(experts, 6);
  for (T& share : of_before) share = T(std::fabs(static_cast<float>(share)));
  const OnDevice<T> load(device, of_before);
  const OnDevice<float> dweights(device, normal_values<float>(choices_of(s), 4));
  std::vector<std::int32_t> where(choices_of(s));
  for (std::size_t i = 0; i < where.size(); ++i)
    where[i] = i % 7 == 3 ? -1 : static_cast<std::int32_t>(i);
  const OnDevice<std::int32_t> chosen(device, choice), places(device, where);
  const std::int64_t units = (losses.first_row + s.rows + losses.unit_rows - 1) / losses.unit_rows;
  const OnDevice<std::int64_t> counts(device, routed_tokens_on(device, s, losses, units, false));
  const std::size_t words = sizeof(ExpertTotals) / sizeof(std::int64_t);
  const OnDevice<std::int64_t> totals(device,
                                      std::vector<std::int64_t>(words + 2 * (experts + 1), 0));
  const OnDevice<StepBlock> block(
      device, std::vector{StepBlock{.loss_scale = 4,
                                    .sample_scale = 0.25,
                                    .experts = reinterpret_cast<ExpertTotals*>(totals.get()),
                                    .most_experts = static_cast<std::int64_t>(experts)}});
  for (int twice = 0; twice < 2; ++twice) {
    device.kernels<T>().route_grad(device.queue(), s, losses,
                                   {.dlogits = dlogits.get(),
                                    .dbias = biased ? dbias.get() : nullptr,
                                    .dload = loaded ? dload.get() : nullptr,
                                    .accumulate = accumulate,
                                    .dweights = dweights.get(),
                                    .logits = logits.get(),
                                    .chosen = chosen.get(),
                                    .places = places.get(),
                                    .counts = loaded ? nullptr : counts.get(),
                                    .load = loaded ? load.get() : nullptr,
                                    .block = block.get(),
                                    .layer = 1});
  }
  const std::vector<std::int64_t> all = totals.values();
  const auto* const sums = reinterpret_cast<const ExpertTotals*>(all.data());
  return {dlogits.values(),     dbias.values(),
          dload.values(),       sums->aux_loss.value(),
          sums->z_loss.value(), {all.begin() + static_cast<std::ptrdiff_t>(words), all.end()}};
}

void expect_the_same(const std::pair<RouterGrads, RouterGrads>& both) {
  const auto& [expected, got] = both;
  expect_close(std::pair{expected.dlogits, got.dlogits}, 5e-6);
  expect_close(std::pair{expected.dbias, got.dbias}, 1e-6);
  expect_close(std::pair{expected.dload, got.dload}, 1e-6);
  EXPECT_NEAR(got.aux_loss, expected.aux_loss, 1e-6 * std::fabs(expected.aux_loss));
  EXPECT_NEAR(got.z_loss, expected.z_loss, 1e-6 * std::fabs(expected.z_loss));
  EXPECT_EQ(expected.kept, got.kept);
}

TEST_P(Routing, HasTheCpusGradientsAndLosses) {
  bool biased = false;
  for (const RouterShape& s : router_shapes) {
    for (const RouterLosses& losses :
         {RouterLosses{.unit_rows = s.rows, .seq = s.rows},
          RouterLosses{.aux_coeff = 0.3, .z_coeff = 0.2, .unit_rows = s.rows, .seq = s.rows},
          RouterLosses{.aux_coeff = 0.3, .unit_rows = 4, .seq = 2, .first_row = 2, .whole_rows = 8},
          RouterLosses{.z_coeff = 0.2, .unit_rows = 5, .seq = 5, .block_rows = 5}}) {
      biased = !biased;
      SCOPED_TRACE(testing::Message() << s.experts << " experts, top " << s.top_k << ", units of "
                                      << losses.unit_rows);
      expect_the_same(
          on_both([&](Device& d) { return route_grad_on<float>(d, s, losses, biased, biased); }));
    }
  }
}

// A global-batch loss uses the load of the previous step, and counts that of this one.
TEST_P(Routing, HasTheCpusGradientsOfALoad) {
  bool biased = false;
  for (const RouterShape& s : router_shapes) {
    biased = !biased;
    SCOPED_TRACE(testing::Message() << s.experts << " experts, top " << s.top_k);
    const RouterLosses losses{.aux_coeff = 0.3, .z_coeff = 0.2, .unit_rows = s.rows, .seq = s.rows};
    for_storage_types([&]<class T>(T) {
      expect_the_same(
          on_both([&](Device& d) { return route_grad_on<T>(d, s, losses, biased, biased, true); }));
    });
  }
}

TEST_P(Routing, MovesBiasesAndKeepsLoadsAsTheCpu) {
  for_storage_types([&]<class T>(T) {
    expect_equal(on_both([&](Device& device) {
      const OnDevice<float> master(device, normal_values<float>(9, 1));
      const OnDevice<float> choices(device, std::vector<float>{3, 5, 4, 4, 0, 8, 4, 4, 4});
      const OnDevice<T> compute(device, 9);
      device.kernels<T>().update_router_bias(device.queue(), master.get(), compute.get(),
                                             choices.get(), 0.125, 9);
      std::vector<float> all;
      const auto collect = [&] {
        for (const auto& values : {as_floats(compute.values()), master.values()})
          all.insert(all.end(), values.begin(), values.end());
      };
      collect();
      device.kernels<T>().update_router_load(device.queue(), master.get(), compute.get(),
                                             choices.get(), 9);
      collect();
      return all;
    }));
  });
}

std::vector<std::int32_t> dispatch_on(Device& device, const DispatchShape& s, bool is_gpu) {
  const auto count = static_cast<std::size_t>(s.rows * s.top_k);
  std::vector<std::int32_t> chosen(count);
  std::mt19937 generator(5);
  for (std::int32_t& expert : chosen) {
    expert = static_cast<std::int32_t>(generator() % static_cast<unsigned>(s.experts));
    if (generator() % 4 == 0) expert = 0;  // this expert gets more rows than others
  }
  // Some weights are equal.
  std::vector<float> values = normal_values<float>(count, 3);
  for (std::size_t i = 0; i + 9 < count; i += 3) values[i + 9] = values[i];
  const OnDevice<std::int32_t> choices(device, chosen), places(device, count);
  const OnDevice<std::int32_t> offsets(device, static_cast<std::size_t>(s.experts * s.blocks) + 1);
  const OnDevice<float> weights(device, values);
  const GuardedScratch workspace(
      device, is_gpu ? gpu::dispatch_workspace(s.rows * s.top_k, s.experts, s.blocks)
                     : static_cast<std::int64_t>(4 * count));
  device.kernels<float>().dispatch(device.queue(), s, places.get(), offsets.get(), choices.get(),
                                   weights.get(), workspace.as<std::int32_t>());
  EXPECT_TRUE(workspace.was_kept_to());
  std::vector<std::int32_t> all = places.values();
  const auto begins = offsets.values();
  all.insert(all.end(), begins.begin(), begins.end());
  return all;
}

TEST_P(Routing, SortsAndDropsAsTheCpu) {
  for (const DispatchShape& s :
       {DispatchShape{{3, 0, 5, false}, 5, 2}, DispatchShape{{8, 0, 700, false}, 700, 3},
        DispatchShape{{300, 0, 500, false}, 500, 4}, DispatchShape{{8, 0, 720, false, 2}, 720, 3},
        DispatchShape{{4, 0, 60, false, 6}, 60, 1}, DispatchShape{{4, 9, 20, false}, 60, 2},
        DispatchShape{{8, 70, 360, true}, 720, 3},
        DispatchShape{{8, 140, 360, false, 3}, 720, 3}}) {
    SCOPED_TRACE(testing::Message() << s.rows << " rows, " << s.experts << " experts, capacity "
                                    << s.capacity << ", blocks " << s.blocks);
    expect_equal(on_both([&](Device& d) { return dispatch_on(d, s, &d == &gpu_); }));
  }
}

}  // namespace
}  // namespace trireme
