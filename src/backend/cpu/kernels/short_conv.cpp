// Causal convolution of each channel over the newest positions, followed by SiLU. Sums go from the
// oldest position to the newest.
#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/combine_chunks.h"
#include "backend/cpu/kernels/math.h"
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/table.h"
#include "base/divide.h"
#include "base/error.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t conv_channels = 256, conv_rows = 64, widest_conv = 16;

// A block of channels, with its weights by position, followed by its biases or zeros.
template <class T>
struct ConvBlock {
  using A = Acc<T>;

  const ShortConvShape& s;
  std::int64_t first, channels;
  A (*weights)[conv_channels];  // [width + 1]

  ConvBlock(const ShortConvShape& shape, const T* weight, const T* bias, std::int64_t block,
            A (*scratch)[conv_channels])
      : s(shape), first(block * conv_channels), weights(scratch) {
    const std::int64_t rest = s.channels - first;
    channels = rest < conv_channels ? rest : conv_channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t j = 0; j < s.width; ++j)
        weights[j][c] = load_one(weight + (first + c) * s.width + j);
      weights[s.width][c] = bias ? load_one(bias + first + c) : A{0};
    }
  }

  // First position that a row sees; negative ones are in the cache of generation.
  std::int64_t oldest(std::int64_t row) const {
    const std::int64_t position = row % s.seq, reach = position - s.width + 1;
    std::int64_t document = s.places.first_visible ? s.places.first_visible[row] : 0;
    if (s.places.lengths) document = -s.places.lengths[row / s.seq];
    return reach < document ? document : reach;
  }

  // Calls body(weights, x) for each position that a row sees, from the oldest on.
  template <class Body>
  TRIREME_INLINE void for_seen(std::int64_t row, const T* x, const T* inputs,
                               const Body& body) const {
    const std::int64_t sample = row / s.seq, position = row % s.seq;
    for (std::int64_t p = oldest(row); p <= position; ++p) {
      const T* const seen = p < 0 ? inputs + ((sample + 1) * (s.width - 1) + p) * s.channels
                                  : x + (sample * s.seq + p) * s.channels;
      body(weights[s.width - 1 - position + p], seen + first);
    }
  }

  // z [channels] = the sums of a row.
  TRIREME_INLINE void sums(A* z, std::int64_t row, const T* x, const T* inputs) const {
    for (std::int64_t c = 0; c < channels; ++c) z[c] = weights[s.width][c];
    for_seen(row, x, inputs, [&](const A* w, const T* seen) TRIREME_INLINE_LAMBDA {
      for_vectors<lanes_of<T>>(channels, [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
        store(z + c, load(z + c, n) + load(w + c, n) * load(seen + c, n), n);
      });
    });
  }

  // z [channels] = the gradient of the sums of a row.
  TRIREME_INLINE void sums_grad(A* z, std::int64_t row, const T* dy, const T* x) const {
    sums(z, row, x, nullptr);
    const T* const grad = dy + row * s.channels + first;
    const auto one = splat(A{1});
    for_vectors<lanes_of<T>>(channels, [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
      const auto at = load(z + c, n), gate = sigmoid(at);
      store(z + c, load(grad + c, n) * gate * (one + at * (one - gate)), n);
    });
  }
};

template <class T>
struct ConvScratch {
  alignas(64) Acc<T> weights[widest_conv + 1][conv_channels];
  alignas(64) Acc<T> z[conv_rows + widest_conv][conv_channels];
  alignas(64) Acc<T> sums[widest_conv + 1][conv_channels];
};

// Runs body(block of channels, first row, end) for all blocks of rows of all sequences.
template <class T, class Body>
void for_conv_blocks(const ShortConvShape& s, const T* weight, const T* bias, const Body& body) {
  TRIREME_CHECK(s.width >= 1 && s.width <= widest_conv);
  const std::int64_t blocks = ceil_div(s.channels, conv_channels);
  const std::int64_t pieces = ceil_div(s.seq, conv_rows);
  parallel_tasks(s.batch * pieces * blocks, [&](std::int64_t task) {
    const ConvBlock<T> block(s, weight, bias, task % blocks, scratch_as<ConvScratch<T>>().weights);
    const std::int64_t sample = task / blocks / pieces, piece = task / blocks % pieces;
    const std::int64_t begin = piece * conv_rows, end = begin + conv_rows;
    body(block, sample * s.seq + begin, sample * s.seq + (end < s.seq ? end : s.seq));
  });
}

// Moves the newest positions of each sequence into the cache.
template <class T>
void keep_inputs(const ShortConvShape& s, const T* x, T* inputs) {
  for (std::int64_t sample = 0; sample < s.batch; ++sample) {
    const std::int64_t count = s.places.new_tokens[sample], kept = s.width - 1;
    T* const own = inputs + sample * kept * s.channels;
    for (std::int64_t i = 0; i < kept; ++i) {
      const std::int64_t position = count - kept + i;
      const T* const from = position >= 0 ? x + (sample * s.seq + position) * s.channels
                                          : own + (kept + position) * s.channels;
      if (from != own + i * s.channels)
        __builtin_memcpy(own + i * s.channels, from, s.channels * sizeof(T));
    }
  }
}

template <class T>
void short_conv(const ShortConvShape& s, T* y, const T* x, const T* weight, const T* bias,
                T* inputs) {
  const auto run = [&](const ConvBlock<T>& block, std::int64_t begin, std::int64_t end) {
    Acc<T>* const z = scratch_as<ConvScratch<T>>().z[0];
    for (std::int64_t row = begin; row < end; ++row) {
      block.sums(z, row, x, inputs);
      T* const to = y + row * s.channels + block.first;
      for_vectors<lanes_of<T>>(block.channels, [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
        const auto at = load(z + c, n);
        store(to + c, at * sigmoid(at), n);
      });
    }
  };
  for_conv_blocks(s, weight, bias, run);
  if (inputs) keep_inputs(s, x, inputs);
}

template <class T>
void short_conv_input_grad(const ShortConvShape& s, T* dx, const T* dy, const T* x, const T* weight,
                           const T* bias) {
  const auto run = [&](const ConvBlock<T>& block, std::int64_t begin, std::int64_t end) {
    using A = Acc<T>;
    auto& z = scratch_as<ConvScratch<T>>().z;
    const std::int64_t sequence_end = (begin / s.seq + 1) * s.seq;
    const std::int64_t reach = end + s.width - 1 < sequence_end ? end + s.width - 1 : sequence_end;
    for (std::int64_t row = begin; row < reach; ++row) block.sums_grad(z[row - begin], row, dy, x);
    for (std::int64_t row = begin; row < end; ++row) {
      T* const to = dx + row * s.channels + block.first;
      for_vectors<lanes_of<T>>(block.channels, [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
        auto sum = splat(A{0});
        for (std::int64_t later = row; later < reach && later < row + s.width; ++later) {
          if (row % s.seq < block.oldest(later)) break;
          sum +=
              load(block.weights[s.width - 1 - later + row] + c, n) * load(z[later - begin] + c, n);
        }
        store(to + c, sum, n);
      });
    }
  };
  for_conv_blocks(s, weight, bias, run);
}

// Adds the gradient of one row to the sums, [width + 1].
template <class T>
void add_weight_grad(const ConvBlock<T>& block, std::int64_t row, const T* dy, const T* x) {
  auto& scratch = scratch_as<ConvScratch<T>>();
  Acc<T>* const z = scratch.z[0];
  block.sums_grad(z, row, dy, x);
  block.for_seen(row, x, nullptr, [&](const Acc<T>* w, const T* seen) TRIREME_INLINE_LAMBDA {
    Acc<T>* const sum = scratch.sums[(w - block.weights[0]) / conv_channels];
    for_vectors<lanes_of<T>>(block.channels, [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
      store(sum + c, load(sum + c, n) + load(z + c, n) * load(seen + c, n), n);
    });
  });
  Acc<T>* const biases = scratch.sums[block.s.width];
  for (std::int64_t c = 0; c < block.channels; ++c) biases[c] += z[c];
}

template <class T>
void short_conv_weight_grad(const ShortConvShape& s, const ShortConvGradOperands<T>& o,
                            std::int64_t first_row, std::int64_t rows) {
  TRIREME_CHECK(s.width >= 1 && s.width <= widest_conv);
  const std::int64_t blocks = ceil_div(s.channels, conv_channels), chunks = row_chunks(rows);
  Acc<T>* const biases = o.workspace + chunks * s.channels * s.width;
  parallel_tasks(chunks * blocks, [&](std::int64_t task) {
    auto& scratch = scratch_as<ConvScratch<T>>();
    const ConvBlock<T> block(s, o.weight, o.bias, task % blocks, scratch.weights);
    const std::int64_t chunk = task / blocks, begin = chunk * rows_per_chunk(rows);
    const std::int64_t end = begin + rows_per_chunk(rows);
    __builtin_memset(scratch.sums, 0, sizeof scratch.sums);
    for (std::int64_t row = begin; row < end && row < rows; ++row)
      add_weight_grad(block, first_row + row, o.dy, o.x);
    const std::int64_t at = chunk * s.channels + block.first;
    for (std::int64_t c = 0; c < block.channels; ++c) {
      for (std::int64_t j = 0; j < s.width; ++j)
        o.workspace[(at + c) * s.width + j] = scratch.sums[j][c];
      if (o.dbias) biases[at + c] = scratch.sums[s.width][c];
    }
  });
  combine_chunks(o.dweight, o.accumulate, o.workspace, chunks, s.channels * s.width);
  if (o.dbias) combine_chunks(o.dbias, o.accumulate, biases, chunks, s.channels);
}

}  // namespace

template <class T>
void set_short_conv(Kernels<T>& table) {
  table.short_conv = at_once<short_conv<T>>;
  table.short_conv_input_grad = at_once<short_conv_input_grad<T>>;
  table.short_conv_weight_grad = at_once<short_conv_weight_grad<T>>;
}
TRIREME_INSTANTIATE(set_short_conv)

}  // namespace trireme::cpu::TRIREME_ISA
