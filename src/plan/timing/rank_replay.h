// Replay of one rank's record: times of its compute queue, its host and its lanes of messages and
// copies, as far as the progress of other ranks is known.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/timing/rank_costs.h"
#include "plan/timing/rendezvous.h"
#include "plan/timing/replay.h"

namespace trireme {

class RankReplay {
 public:
  // All arguments must outlive the replay. `events` receives intervals; may be null.
  RankReplay(int position, const std::vector<const Record*>& programs, const CostModel& costs,
             RendezvousTable& rendezvous, std::vector<TimedEvent>* events);

  bool is_done() const { return next_ == record_.rest().work.size(); }
  // Advances to the end or to an unresolved dependency; returns whether it made progress.
  bool advance();

  const RankTime& result() const { return result_; }
  Clock end() const;

  // Seconds of each piece in isolation.
  std::map<WorkKey, PieceTime> alone();

 private:
  using Kind = RecordedWork::Kind;

  // Effect of a piece that starts with idle lanes and a host that is ahead: everything happens at
  // fixed times after its start.
  struct Effect {
    bool contained = false;  // waits for exactly the operations that it starts
    Clock compute;           // from its begin, as the lanes that it leaves
    std::vector<std::pair<std::string, Clock>> lanes;
    TimeByKind busy{}, waits{};
    double host = 0;
  };
  // A message in flight: its identity and, once known, its arrival time.
  struct Operation {
    const RecordedWork* work = nullptr;
    WorkCost cost;
    Flight* flight = nullptr;  // of a send or a receive
    int number = -1;           // among a group's collectives of several positions
    std::optional<Clock> end;
  };

  // Pieces (piece_effects.cpp).
  void run_piece(const WorkKey& key);
  void run_works(const WorkKey& key);
  bool is_contained(const RecordedPiece& piece) const;
  const Effect& effect_of(const WorkKey& key);
  bool apply(const Effect& effect);

  // Runs a work item. False: it depends on something not yet known, and nothing has changed.
  bool run(const RecordedWork& work, const WorkCost& cost);
  void compute(const RecordedWork& work, const WorkCost& cost);
  void transfer(const RecordedWork& work, const WorkCost& cost);
  bool start(const RecordedWork& work, const WorkCost& cost);
  bool wait(std::int32_t number);

  const Clock& ready_to_receive() const;
  void note_pass(const WorkKey& key);
  bool settle(Operation& operation);
  void complete(Operation& operation, Clock begin);
  void wait_on(const Operation& operation);
  void spend(TimeKind kind, double seconds);
  template <class Name>
  void keep(const char* lane, double begin, double end, const Name& name) {
    if (events_ && end > begin) events_->push_back({position_, lane, name(), begin, end});
  }

  const int position_;
  const Record& record_;
  const RankCosts costs_;
  RendezvousTable& rendezvous_;
  std::vector<TimedEvent>* events_;
  std::map<WorkKey, Effect> effects_;
  std::vector<int> members_;                           // by group: positions
  bool has_chunks_ = false, splits_backward_ = false;  // the schedule
  bool sends_block_ = false;                           // until the transfer is complete
  // Chunk and kind of the last pass, and its start time.
  std::pair<int, int> last_pass_{-1, -1};
  Clock pass_begin_;
  bool between_passes_ = true;
  std::size_t next_ = 0;
  Clock compute_, host_;
  std::map<std::string, Clock> lanes_;
  std::map<std::string, int> numbers_;  // of collectives with other positions, by group
  std::vector<Operation> operations_;
  RankTime result_;
};

// Whether the host blocks on a work item, and whether it enqueues a kernel.
bool host_waits(const RecordedWork& work);
bool is_kernel(const RecordedWork& work);

}  // namespace trireme
