// Lower bounds on a layout's memory and time, computed without planning it: a search skips layouts
// whose bounds are too high.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "plan/layout_space.h"
#include "plan/machine.h"
#include "plan/model_pieces.h"

namespace trireme {

class LayoutBounds {
 public:
  // `config` as for layout_space(). `costs`: null if only memory() is used. All arguments must
  // outlive the bounds.
  LayoutBounds(const Config& config, int ranks, const Machine& machine, const CostModel* costs)
      : config_(config),
        kinds_(layer_kinds(config.model, config.fp8)),
        ranks_(ranks),
        machine_(machine),
        costs_(costs) {}

  // Lower bound of layout_memory().
  std::int64_t memory(const Layout& layout);
  // Lower bound of plan_time().
  double seconds(const Layout& layout);

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         Recompute, bool>;
  const ModelPieces& pieces(const Layout& layout, Recompute recompute);

  const Config& config_;
  const std::vector<LayerKind> kinds_;  // of the layers
  int ranks_;
  const Machine& machine_;
  const CostModel* costs_;
  std::map<Key, ModelPieces> pieces_;
};

}  // namespace trireme
