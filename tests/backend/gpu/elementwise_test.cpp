// Sums, dropout and casts of the GPU against the CPU's.
#include "backend/gpu/both_devices.h"

namespace trireme {
namespace {

class Elementwise : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(Elementwise);

TEST_P(Elementwise, CastsMasterWeightsAsTheCpu) {
  const auto cast = [&]<class T>(T) {
    const auto master = normal_values<float>(1013, 1);
    const auto [expected, got] = on_both([&](Device& device) {
      const OnDevice<float> src(device, master);
      const OnDevice<T> dst(device, master.size());
      device.kernels<T>().cast_from_master(device.queue(), dst.get(), src.get(), 1013);
      return dst.values();
    });
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(static_cast<float>(expected[i]), static_cast<float>(got[i])) << i;
  };
  cast(float{}), cast(bf16{}), cast(f16{});
}

}  // namespace
}  // namespace trireme
