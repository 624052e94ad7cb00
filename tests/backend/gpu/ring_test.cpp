// Tests of ring attention, with ranks simulated one after another on the GPU, against attention
// over whole sequences on the CPU.
#include <algorithm>
#include <limits>
#include <memory>

#include "backend/cpu/workspace.h"
#include "backend/gpu/all_maps.h"
#include "backend/gpu_workspace.h"

namespace trireme {
namespace {

struct RingCase {
  const char* name;
  std::int64_t ranks, batch, chunk, groups, queries_per_group, head_dim;
  bool documents;
  std::int64_t alibi_heads;
  float dropout = 0;
  double soft_cap = 0;
};

constexpr RingCase cases[] = {
    {"two ranks", 2, 2, 16, 1, 2, 16, false, 0},
    {"an odd chunk and head_dim", 2, 1, 7, 2, 1, 12, false, 0},
    {"one position", 2, 1, 1, 1, 1, 8, false, 0},
    {"documents that begin within a chunk and before it", 3, 2, 24, 2, 2, 16, true, 0},
    {"slopes", 2, 2, 21, 2, 2, 16, false, 5},
    {"four ranks with documents and slopes", 4, 1, 24, 1, 3, 40, true, 3},
    {"dropout", 2, 2, 16, 2, 2, 16, false, 0, 0.2f},
    {"dropout of half-chunks that begin within a tile", 3, 1, 24, 1, 2, 16, true, 0, 0.4f},
    {"a cap", 2, 2, 20, 1, 2, 16, false, 0, 0, 1},
    {"a cap with documents and dropout", 2, 1, 40, 1, 2, 16, true, 0, 0.2f, 1},
};

// Returns the relative distance in the Euclidean norm; it is NaN if any value is NaN.
template <class V>
double distance(const std::vector<V>& found, const std::vector<V>& wanted) {
  double difference = 0, size = 0;
  if (found.size() != wanted.size()) return std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double x = static_cast<float>(found[i]), y = static_cast<float>(wanted[i]);
    difference += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(difference / size);
}

// Tolerance for results that are rounded to T, as was each of their parts.
template <class T>
double tolerance() {
  if constexpr (std::is_same_v<T, bf16>) return 1e-2;
  if constexpr (std::is_same_v<T, f16>) return 2e-3;
  return 2e-6;
}

template <class T>
class Sequences {
 public:
  explicit Sequences(const RingCase& one) : one_(one) {
    shape_ = {one.batch,
              2 * one.ranks * one.chunk,
              one.groups,
              one.queries_per_group,
              one.head_dim,
              true,
              1 / std::sqrt(static_cast<double>(one.head_dim))};
    shape_.alibi_heads = one.alibi_heads;
    shape_.soft_cap = one.soft_cap;
    shape_.dropout.probability = one.dropout;
    shape_.dropout.site = 11;
    for (std::int64_t b = 0; b < one.batch; ++b) sample_ids.push_back(b * 7'000'000'001 + 5);
    const std::int64_t length = 17;
    for (std::int64_t i = 0; one.documents && i < one.batch * shape_.seq; ++i)
      first_visible.push_back(static_cast<std::int32_t>(i % shape_.seq / length * length));
    qkv = normal_values<T>(size(shape_.qkv_cols()), 1);
    dctx = normal_values<T>(size(shape_.ctx_cols()), 2);
  }

  std::vector<T> qkv, dctx;
  std::vector<std::int32_t> first_visible;
  std::vector<std::int64_t> sample_ids;

  const AttentionShape& shape() const { return shape_; }
  SequenceCut cut(std::int64_t rank) const {
    return {one_.chunk, {rank * one_.chunk, (2 * one_.ranks - 1 - rank) * one_.chunk}};
  }
  // Returns the rank's rows; of each group of `columns`, the last `kept`.
  std::vector<T> rows(const std::vector<T>& whole, std::int64_t rank, std::int64_t columns,
                      std::int64_t kept) const {
    std::vector<T> part;
    const std::int64_t all = static_cast<std::int64_t>(whole.size()) / one_.batch / shape_.seq;
    for (std::int64_t b = 0; b < one_.batch; ++b)
      for (std::int64_t i = 0; i < 2 * one_.chunk; ++i)
        for (std::int64_t c = 0; c < all; ++c)
          if (c % columns >= columns - kept)
            part.push_back(whole[static_cast<std::size_t>(
                (b * shape_.seq + cut(rank).position(i)) * all + c)]);
    return part;
  }
  std::size_t size(std::int64_t columns) const {
    return static_cast<std::size_t>(one_.batch * shape_.seq * columns);
  }

 private:
  const RingCase& one_;
  AttentionShape shape_{};
};

// Dropout's inputs on a device.
struct DropoutInputs {
  const OnDevice<std::int64_t> ids;
  const OnDevice<StepBlock> block;

  DropoutInputs(Device& device, const std::vector<std::int64_t>& sample_ids)
      : ids(device, sample_ids), block(device, {StepBlock{.seed = 0x123456789abcdef, .step = 3}}) {}
  void set(AttentionShape& s) const {
    s.dropout.block = block.get();
    s.dropout.sample_ids = ids.get();
  }
};

template <class T>
struct Outcome {
  std::vector<T> ctx, dqkv;
};

template <class T>
Outcome<T> whole_on(Device& cpu, const Sequences<T>& sequences) {
  AttentionShape s = sequences.shape();
  const OnDevice<T> qkv(cpu, sequences.qkv), dctx(cpu, sequences.dctx);
  const OnDevice<T> ctx(cpu, sequences.size(s.ctx_cols())), dqkv(cpu, sequences.size(s.qkv_cols()));
  const OnDevice<float> lse(cpu, sequences.size(s.heads()));
  const OnDevice<std::int32_t> first_visible(cpu, sequences.first_visible);
  if (!sequences.first_visible.empty()) s.first_visible = first_visible.get();
  const DropoutInputs dropout(cpu, sequences.sample_ids);
  dropout.set(s);
  const OnDevice<char> workspace(
      cpu, static_cast<std::size_t>(cpu::attention_workspace(cpu.target(), dtype_of<T>, s)));
  const Kernels<T>& k = cpu.kernels<T>();
  k.attention(cpu.queue(), s, ctx.get(), lse.get(), qkv.get(), workspace.get());
  k.attention_grad(cpu.queue(), s,
                   {.dqkv = dqkv.get(),
                    .dctx = dctx.get(),
                    .qkv = qkv.get(),
                    .ctx = ctx.get(),
                    .lse = lse.get(),
                    .workspace = workspace.get()});
  return {ctx.values(), dqkv.values()};
}

// Results of all ranks, concatenated.
template <class T>
std::vector<Outcome<T>> ring_on(Device& gpu, const RingCase& one, const Sequences<T>& sequences) {
  const AttentionShape& s = sequences.shape();
  const std::int64_t group = (s.queries_per_group + 2) * s.head_dim, kept = 2 * s.head_dim;
  const auto count = [&](std::int64_t columns) {
    return static_cast<std::size_t>(s.batch * 2 * one.chunk * columns);
  };
  const OnDevice<std::int32_t> first_visible(gpu, sequences.first_visible);
  const DropoutInputs dropout(gpu, sequences.sample_ids);
  const Kernels<T>& k = gpu.kernels<T>();
  const T nan(std::numeric_limits<float>::quiet_NaN());
  std::vector<std::unique_ptr<OnDevice<T>>> qkv, keys, dctx;
  std::vector<std::unique_ptr<OnDevice<float>>> own_grads, key_grads, lses, deltas;
  std::vector<AttentionShape> shapes;
  std::vector<Outcome<T>> outcomes(static_cast<std::size_t>(one.ranks));
  for (std::int64_t r = 0; r < one.ranks; ++r) {
    shapes.push_back(s);
    shapes.back().cut = sequences.cut(r);
    if (one.documents) shapes.back().first_visible = first_visible.get();
    dropout.set(shapes.back());
    const auto rows = [&](const std::vector<T>& whole, std::int64_t columns, std::int64_t some) {
      return std::make_unique<OnDevice<T>>(gpu, sequences.rows(whole, r, columns, some));
    };
    qkv.push_back(rows(sequences.qkv, group, group));
    keys.push_back(rows(sequences.qkv, group, kept));
    dctx.push_back(rows(sequences.dctx, 1, 1));
    for (auto* grads : {&own_grads, &key_grads})
      grads->push_back(std::make_unique<OnDevice<float>>(gpu, count(s.groups * kept)));
    for (auto* numbers : {&lses, &deltas})
      numbers->push_back(std::make_unique<OnDevice<float>>(gpu, count(s.heads())));
  }
  for (std::int64_t r = 0; r < one.ranks; ++r) {
    const AttentionShape& part = shapes[r];
    const OnDevice<T> ctx(gpu, std::vector<T>(count(s.ctx_cols()), nan));
    const GuardedScratch sums(gpu, gpu::ring_attention_workspace(dtype_of<T>, part));
    for (std::int64_t turn = 0; turn < one.ranks; ++turn) {
      const std::int64_t from = (r + one.ranks - turn) % one.ranks;
      k.ring_attention(gpu.queue(), part, sequences.cut(from), turn == 0,
                       turn + 1 == one.ranks ? ctx.get() : nullptr, sums.as<float>(),
                       lses[r]->get(), qkv[r]->get(), keys[from]->get());
    }
    k.attention_delta(gpu.queue(), part, deltas[r]->get(), ctx.get(), dctx[r]->get());
    outcomes[r].ctx = ctx.values();
    EXPECT_TRUE(sums.was_kept_to());
  }
  for (std::int64_t r = 0; r < one.ranks; ++r) {
    const OnDevice<T> dqkv(gpu, std::vector<T>(count(s.qkv_cols()), nan));
    const GuardedScratch scratch(gpu, gpu::ring_attention_grad_workspace(dtype_of<T>, shapes[r]));
    for (std::int64_t turn = 0; turn < one.ranks; ++turn) {
      const std::int64_t from = (r + one.ranks - turn) % one.ranks;
      k.ring_attention_grad(gpu.queue(), shapes[r], sequences.cut(from), turn == 0,
                            turn + 1 == one.ranks ? dqkv.get() : nullptr,
                            turn == 0 ? own_grads[r]->get() : key_grads[from]->get(), qkv[r]->get(),
                            keys[from]->get(), dctx[r]->get(), lses[r]->get(), deltas[r]->get(),
                            scratch.as<void>());
    }
    outcomes[r].dqkv = dqkv.values();
    EXPECT_TRUE(scratch.was_kept_to());
  }
  for (std::int64_t r = 0; r < one.ranks; ++r) {
    const OnDevice<T> dqkv(gpu, outcomes[r].dqkv);
    k.ring_key_grads(gpu.queue(), shapes[r], dqkv.get(), own_grads[r]->get(), key_grads[r]->get());
    outcomes[r].dqkv = dqkv.values();
  }
  return outcomes;
}

class Ring : public OnAllMaps {};

TEST_P(Ring, IsAttentionOverWholeSequences) {
  for (const RingCase& one : cases) {
    SCOPED_TRACE(one.name);
    for_storage_types([&]<class T>(T) {
      SCOPED_TRACE(name_of(dtype_of<T>));
      const Sequences<T> sequences(one);
      const Outcome<T> whole = whole_on(cpu_, sequences);
      const auto ring = ring_on(gpu_, one, sequences);
      for (std::int64_t r = 0; r < one.ranks; ++r) {
        SCOPED_TRACE(r);
        EXPECT_LT(distance(ring[r].ctx, sequences.rows(whole.ctx, r, 1, 1)), tolerance<T>());
        EXPECT_LT(distance(ring[r].dqkv, sequences.rows(whole.dqkv, r, 1, 1)), tolerance<T>());
      }
    });
  }
}

TRIREME_ON_ALL_MAPS(Ring);

}  // namespace
}  // namespace trireme
