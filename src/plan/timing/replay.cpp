// Each rank advances as far as its incoming messages are known; then the other ranks
// continue.
#include "plan/timing/replay.h"

#include <memory>

#include "base/error.h"
#include "plan/timing/rank_replay.h"

namespace trireme {

std::map<WorkKey, PieceTime> times_alone(const Record& record, const CostModel& costs) {
  RendezvousTable rendezvous(nullptr);
  return RankReplay(0, {&record}, costs, rendezvous, nullptr).alone();
}

Replay replay(const std::vector<const Record*>& programs, const CostModel& costs, bool events) {
  Replay result;
  RendezvousTable rendezvous(events ? &result.events : nullptr);
  std::vector<std::unique_ptr<RankReplay>> ranks;
  for (int p = 0; p < static_cast<int>(programs.size()); ++p) {
    ranks.push_back(std::make_unique<RankReplay>(p, programs, costs, rendezvous,
                                                 events ? &result.events : nullptr));
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& rank : ranks) moved |= rank->advance();
  }
  for (const auto& rank : ranks) {
    TRIREME_CHECK(rank->is_done());
    result.ranks.push_back(rank->result());
    result.end.wait_for(rank->end());
  }
  return result;
}

}  // namespace trireme
