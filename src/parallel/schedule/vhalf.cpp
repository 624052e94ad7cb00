// V-Half: half the activation memory of 1F1B, from a repeated building block ("Pipeline Parallelism
// with Controllable Memory", Qi et al. 2024).
//
// In units of one pass, a block takes one micro-batch down chunk 0, up chunk 1, and back, and a new
// one begins every 6 units (two chunks, three passes each). From rank to rank a pass moves by a
// whole number of units: d for the forward of chunk 0 and the gradient of chunk 1, 3 - d for the
// other two. The two passes of a chunk then take 3 units per rank together, where 1F1B and ZBV take
// 6: that halves how long activations live. Where the V turns (from the end of one chunk to the
// other, from forward to gradient, and back), waits keep the four passes of a rank apart modulo 6;
// weight gradients take the two slots that are left.
#include <algorithm>
#include <array>

#include "parallel/schedule/orders.h"

namespace trireme {
namespace {

constexpr int period = 6;
constexpr int passes = 4;  // forward of chunk 0, of chunk 1, gradient of chunk 1, of chunk 0

// A building block. Several are valid for a number of ranks; the best depends on pass times.
struct VHalfBlock {
  int shift;              // units from rank to rank: d
  int turn_at_last_rank;  // waits where the V turns, in units
  int turn_at_first_rank;
  int return_at_last_rank;
};

using Starts = std::array<int, passes>;  // of one micro-batch on one rank

Starts starts_of(const VHalfBlock& b, int rank, int ranks) {
  const int other = period / 2 - b.shift;
  const int last = ranks - 1;
  const int forward1_first = b.shift * last + b.turn_at_last_rank + other * last;
  const int gradient1_last = forward1_first + b.turn_at_first_rank + b.shift * last;
  return {b.shift * rank, forward1_first - other * rank,
          forward1_first + b.turn_at_first_rank + b.shift * rank,
          gradient1_last + b.return_at_last_rank + other * (last - rank)};
}

bool passes_stay_apart(const VHalfBlock& block, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    unsigned taken = 0;
    for (const int start : starts_of(block, rank, ranks)) {
      const unsigned bit = 1u << (start % period);
      if (taken & bit) return false;
      taken |= bit;
    }
  }
  return true;
}

std::vector<Action> repeat(const Starts& starts, int micro_batches) {
  struct Timed {
    int time;
    Action action;
  };
  static constexpr ActionKind kinds[passes] = {ActionKind::forward, ActionKind::forward,
                                               ActionKind::input_grad, ActionKind::input_grad};
  static constexpr std::int16_t chunks[passes] = {0, 1, 1, 0};
  std::vector<Timed> all;
  all.reserve(static_cast<std::size_t>(micro_batches) * passes);
  for (int m = 0; m < micro_batches; ++m) {
    for (int i = 0; i < passes; ++i) {
      all.push_back({starts[i] + m * period, {kinds[i], chunks[i], m, -1}});
    }
  }
  std::sort(all.begin(), all.end(), [](const Timed& a, const Timed& b) { return a.time < b.time; });
  std::vector<Action> actions;
  actions.reserve(all.size());
  for (const Timed& timed : all) actions.push_back(timed.action);
  return actions;
}

PassOrder vhalf_order(const VHalfBlock& block, int ranks, int micro_batches) {
  PassOrder order(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    order[rank] = repeat(starts_of(block, rank, ranks), micro_batches);
  }
  return order;
}

std::vector<VHalfBlock> vhalf_blocks(int ranks) {
  std::vector<VHalfBlock> blocks;
  std::vector<PassOrder> seen;
  for (int shift = 1; shift <= 2; ++shift) {
    for (int waits = 0; waits < period * period * period; ++waits) {
      const VHalfBlock block{shift, 1 + waits / (period * period), 1 + waits / period % period,
                             1 + waits % period};
      if (!passes_stay_apart(block, ranks)) continue;
      // Blocks of different lengths may give the same order: only one is kept.
      PassOrder order = vhalf_order(block, ranks, 2 * ranks);
      if (std::find(seen.begin(), seen.end(), order) != seen.end()) continue;
      seen.push_back(std::move(order));
      blocks.push_back(block);
    }
  }
  return blocks;
}

}  // namespace

PassMaker vhalf_passes(const ScheduleRequest& request, const StagePlacement& placement) {
  const int p = request.ranks;
  std::vector<PassMaker> candidates;
  for (const VHalfBlock& block : vhalf_blocks(p)) {
    candidates.emplace_back([=](int m) { return vhalf_order(block, p, m); });
  }
  // The minimum that keeps the bubble below half of 1F1B's; 1F1B would hold 2 p chunks.
  const int limit = p % 2 || p == 2 ? p + 1 : p + 2;
  return with_weight_grads(candidates, request, placement, limit);
}

}  // namespace trireme
