// The words that graphs and kernels share: kinds of devices, norms and activations, and where the
// positions of a cut sequence lie.
#pragma once

#include <cstdint>

namespace trireme {

// As in run.device.
#define TRIREME_DEVICES(X) X(cpu, "cpu") X(cuda, "cuda") X(hip, "hip") X(emulated, "emulated")
#define TRIREME_DEVICE(value, name) value,
enum class DeviceKind : std::uint8_t { TRIREME_DEVICES(TRIREME_DEVICE) };
#undef TRIREME_DEVICE

enum class NormKind : std::uint8_t { layer_norm, rms_norm };

// Context parallelism cuts a sequence into 2 x ranks equal chunks, of which each rank has one from
// each end: its positions [0, chunk) are [first[0], ...) of the sequence, and [chunk, 2 * chunk)
// are [first[1], ...). Without a cut, chunk is 0.
struct SequenceCut {
  std::int64_t chunk = 0;
  std::int64_t first[2] = {0, 0};

  constexpr std::int64_t position(std::int64_t local) const {
    if (chunk == 0) return local;
    return local < chunk ? first[0] + local : first[1] + local - chunk;
  }
};

// Blocks of `width` adjacent elements: block (i, j, k) lies at first + i, j, k times the strides,
// in elements, of the source and of the destination.
struct BlockCopy {
  std::int64_t counts[3] = {1, 1, 1};
  std::int64_t dst_strides[3] = {}, src_strides[3] = {};
  std::int64_t dst_first = 0, src_first = 0;
  std::int64_t width = 0;

  BlockCopy inverse() const {
    BlockCopy back = *this;
    for (int i = 0; i < 3; ++i) {
      back.dst_strides[i] = src_strides[i];
      back.src_strides[i] = dst_strides[i];
    }
    back.dst_first = src_first;
    back.src_first = dst_first;
    return back;
  }
};

enum class ActivationKind : std::uint8_t {
  gelu_tanh,
  gelu_erf,
  silu,
  squared_relu,
  tanh,
  swiglu,  // silu(gate) * up, of rows [gate | up]
  geglu,   // gelu_tanh(gate) * up
};
constexpr bool is_gated(ActivationKind kind) {
  return kind == ActivationKind::swiglu || kind == ActivationKind::geglu;
}

}  // namespace trireme
