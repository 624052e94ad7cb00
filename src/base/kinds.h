// Enumerations shared by graphs and kernels (devices, norms, activations), and the layout of
// sequences split by context parallelism.
#pragma once

#include <cstdint>

namespace trireme {

// The values of run.device.
#define TRIREME_DEVICES(X) X(cpu, "cpu") X(cuda, "cuda") X(hip, "hip") X(emulated, "emulated")
#define TRIREME_DEVICE(value, name) value,
enum class DeviceKind : std::uint8_t { TRIREME_DEVICES(TRIREME_DEVICE) };
#undef TRIREME_DEVICE

enum class NormKind : std::uint8_t { layer_norm, rms_norm };

// Context parallelism splits a sequence into 2 x ranks equal chunks; each rank has one chunk from
// each end. Its local positions [0, chunk) start at first[0] of the sequence, and [chunk, 2 *
// chunk) start at first[1]. chunk is 0 if the sequence is not split.
struct SequenceCut {
  std::int64_t chunk = 0;
  std::int64_t first[2] = {0, 0};

  constexpr std::int64_t position(std::int64_t local) const {
    if (chunk == 0) return local;
    return local < chunk ? first[0] + local : first[1] + local - chunk;
  }
};

// Copies blocks of `width` contiguous elements: block (i, j, k) starts at the first offset plus i,
// j, k times the strides (in elements) of the source and of the destination.
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
