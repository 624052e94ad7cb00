// Pass orders of the classic schedules.
//
// GPipe: Huang et al. 2019. 1F1B: Narayanan et al. 2019 (PipeDream-Flush). Interleaved: Narayanan
// et al. 2021. ZBV: Qi et al. 2024, "Zero Bubble Pipeline Parallelism".
#include "parallel/schedule/orders.h"

#include <algorithm>

namespace trireme {
namespace {

Action pass(ActionKind kind, int chunk, int micro_batch) {
  return {kind, static_cast<std::int16_t>(chunk), micro_batch, -1};
}

PassOrder gpipe_order(int ranks, int micro_batches) {
  PassOrder order(ranks);
  for (auto& actions : order) {
    for (int m = 0; m < micro_batches; ++m) actions.push_back(pass(ActionKind::forward, 0, m));
    for (int m = 0; m < micro_batches; ++m) actions.push_back(pass(ActionKind::backward, 0, m));
  }
  return order;
}

// `split`: emits input_grad instead of backward, without weight_grad.
PassOrder one_f_one_b_order(int ranks, int micro_batches, bool split) {
  const ActionKind backward = split ? ActionKind::input_grad : ActionKind::backward;
  PassOrder order(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const int warm_up = std::min(micro_batches, ranks - 1 - rank);
    for (int m = 0; m < warm_up; ++m) order[rank].push_back(pass(ActionKind::forward, 0, m));
    for (int m = 0; m < micro_batches; ++m) {
      if (m + warm_up < micro_batches) {
        order[rank].push_back(pass(ActionKind::forward, 0, m + warm_up));
      }
      order[rank].push_back(pass(backward, 0, m));
    }
  }
  return order;
}

// Micro-batches are processed in groups: a group passes through all chunks before the next one
// starts. A group with fewer micro-batches than ranks would leave ranks idle, so the remainder is
// distributed over other groups.
std::vector<int> group_sizes(int ranks, int micro_batches) {
  const int groups = std::max(1, micro_batches / ranks);
  std::vector<int> sizes(groups, micro_batches / groups);
  for (int i = 0; i < micro_batches % groups; ++i) ++sizes[i];
  return sizes;
}

std::vector<Action> in_groups(ActionKind kind, const std::vector<int>& groups, int chunks) {
  std::vector<Action> actions;
  int first = 0;
  for (const int size : groups) {
    for (int c = 0; c < chunks; ++c) {
      const int chunk = kind == ActionKind::forward ? c : chunks - 1 - c;
      for (int m = first; m < first + size; ++m) actions.push_back(pass(kind, chunk, m));
    }
    first += size;
  }
  return actions;
}

PassOrder interleaved_order(int ranks, int micro_batches, int chunks) {
  const std::vector<int> groups = group_sizes(ranks, micro_batches);
  const std::vector<Action> forwards = in_groups(ActionKind::forward, groups, chunks);
  const std::vector<Action> backwards = in_groups(ActionKind::backward, groups, chunks);
  const int total = micro_batches * chunks;
  PassOrder order(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const int warm_up = std::min(total, 2 * (ranks - 1 - rank) + (chunks - 1) * groups[0]);
    order[rank].assign(forwards.begin(), forwards.begin() + warm_up);
    for (int k = 0; k < total; ++k) {
      if (k + warm_up < total) order[rank].push_back(forwards[k + warm_up]);
      order[rank].push_back(backwards[k]);
    }
  }
  return order;
}

// Generates the ZBV order of one rank, counting micro-batches per pass and chunk.
class ZbvWriter {
 public:
  ZbvWriter(std::vector<Action>& actions, int micro_batches)
      : actions_(actions), micro_batches_(micro_batches) {}

  void forward(int chunk) { put(ActionKind::forward, chunk, forwards_[chunk]); }
  void input_grad(int chunk) { put(ActionKind::input_grad, chunk, gradients_[chunk]); }
  int forwards(int chunk) const { return forwards_[chunk]; }

 private:
  // The rule assumes an unlimited number of micro-batches; those beyond the last are skipped.
  void put(ActionKind kind, int chunk, int& next) {
    if (next < micro_batches_) actions_.push_back(pass(kind, chunk, next));
    ++next;
  }

  std::vector<Action>& actions_;
  int micro_batches_;
  int forwards_[2] = {0, 0};
  int gradients_[2] = {0, 0};
};

// Two chunks.
PassOrder zbv_order(int ranks, int micro_batches) {
  const int counted = std::max(micro_batches, 2 * ranks - 1);
  PassOrder order(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    ZbvWriter write(order[rank], micro_batches);
    // The first micro-batches go down; those coming back up interleave, and turn at the last stage.
    for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) write.forward(0);
    for (int i = 0; i < rank; ++i) {
      write.forward(1);
      write.forward(0);
    }
    for (int i = 0; i < ranks - rank; ++i) {
      write.forward(1);
      write.input_grad(1);
    }
    while (write.forwards(1) < counted) {
      if (write.forwards(0) < counted) write.forward(0);
      write.input_grad(0);
      write.forward(1);
      write.input_grad(1);
    }
    for (int i = 0; i < rank; ++i) {
      write.input_grad(0);
      write.input_grad(1);
    }
    for (int i = 0; i < ranks - rank; ++i) write.input_grad(0);
  }
  return order;
}

}  // namespace

PassMaker gpipe_passes(const ScheduleRequest& request, const StagePlacement&) {
  return [p = request.ranks](int m) { return gpipe_order(p, m); };
}

PassMaker one_f_one_b_passes(const ScheduleRequest& request, const StagePlacement&) {
  return [p = request.ranks](int m) { return one_f_one_b_order(p, m, false); };
}

PassMaker interleaved_passes(const ScheduleRequest& request, const StagePlacement& placement) {
  return [p = request.ranks, chunks = placement.chunks](int m) {
    return interleaved_order(p, m, chunks);
  };
}

PassMaker zb1p_passes(const ScheduleRequest& request, const StagePlacement& placement) {
  const int p = request.ranks;
  // Every rank may use as much memory as 1F1B's first rank at its peak.
  return with_weight_grads({[p](int m) { return one_f_one_b_order(p, m, true); }}, request,
                           placement, p);
}

PassMaker zbv_passes(const ScheduleRequest& request, const StagePlacement& placement) {
  const int p = request.ranks;
  return with_weight_grads({[p](int m) { return zbv_order(p, m); }}, request, placement, 2 * p);
}

}  // namespace trireme
