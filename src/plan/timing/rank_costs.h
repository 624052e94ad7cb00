// Costs of all work in a rank's record on a machine, as executed by a stack: computed once, before
// any replay.
#pragma once

#include <map>
#include <vector>

#include "plan/timing/costs.h"
#include "plan/timing/eager.h"

namespace trireme {

// Pass numbers of a WorkKey.
enum : int { forward_pass, backward_pass, weight_grad_pass };

struct WorkCost {
  double seconds = 0;
  double beside = 0;  // on the compute queue
  TimeKind kind = TimeKind::kernels;
};

// Cost of each work item of a piece, and of the device's other work in it.
struct PieceCost {
  std::vector<WorkCost> work;
  TimeByKind besides{};
};

class RankCosts {
 public:
  // Both arguments must outlive this object.
  RankCosts(const CostModel& model, const Record& record);

  const CostModel& model() const { return model_; }
  const PieceCost& piece(const WorkKey& key) const { return pieces_.at(key); }
  const std::vector<WorkCost>& rest() const { return rest_; }
  // Seconds to reassemble a message sent in parts by the previous stage; 0: sent whole.
  double gather() const { return gather_; }

 private:
  bool adds_up_gradients() const;
  void share_sends();
  void price(const RecordedPiece& piece, std::vector<WorkCost>& costs) const;
  WorkCost cost_of(const RecordedWork& work) const;
  void add_dead_ends();
  void add_what_runs_again();

  const CostModel& model_;
  const Record& record_;
  const ForeignKernels kernels_;
  std::vector<GroupCosts> groups_;
  bool adds_up_ = false;  // accumulates gradients of micro-batches
  double senders_ = 1;    // of a message to the next stage: each sends a part
  double gather_ = 0;
  std::map<WorkKey, PieceCost> pieces_;
  std::vector<WorkCost> rest_;
};

}  // namespace trireme
