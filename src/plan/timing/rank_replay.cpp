// Processes work in order: kernels on the compute queue, messages and copies on separate lanes.
#include "plan/timing/rank_replay.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

constexpr const char *from_host = "from the host", *to_host = "to the host";  // lanes

int first_rank(const std::vector<const Record*>& programs, int position) {
  const auto& groups = programs[static_cast<std::size_t>(position)]->groups();
  return groups.empty() ? position : groups[0].ranks[static_cast<std::size_t>(groups[0].own)];
}

// Number of positions with ranks in a group. The ranks that represent positions are equally spaced,
// as in the pipeline's group.
int positions_in(const RecordedGroup& group, const std::vector<const Record*>& programs) {
  int members = 0;
  for (int p = 0; p < static_cast<int>(programs.size()); ++p)
    members += std::binary_search(group.ranks.begin(), group.ranks.end(), first_rank(programs, p));
  return members;
}

// Gradient reductions and parameter gathers share the same links.
const std::string& lane_of(const std::string& group, TimeKind kind) {
  static const std::string states = "states";
  return kind == TimeKind::gradients || kind == TimeKind::parameters ? states : group;
}

}  // namespace

bool host_waits(const RecordedWork& work) {
  return work.kind == RecordedWork::Kind::read ||
         (work.kind == RecordedWork::Kind::load && work.operation < 0);
}

bool is_kernel(const RecordedWork& work) {
  using Kind = RecordedWork::Kind;
  return work.kind != Kind::message && work.kind != Kind::wait && work.kind != Kind::piece;
}

RankReplay::RankReplay(int position, const std::vector<const Record*>& programs,
                       const CostModel& costs, RendezvousTable& rendezvous,
                       std::vector<TimedEvent>* events)
    : position_(position),
      record_(*programs[static_cast<std::size_t>(position)]),
      costs_(costs, record_),
      rendezvous_(rendezvous),
      events_(events),
      operations_(static_cast<std::size_t>(record_.operations())) {
  for (const auto& [key, piece] : record_.pieces()) {
    has_chunks_ |= key.chunk > 0;
    splits_backward_ |= key.pass == weight_grad_pass;
  }
  const Stack::Blocking blocking = costs.stack().blocking_sends;
  sends_block_ = blocking == Stack::Blocking::always ||
                 (blocking == Stack::Blocking::in_1f1b && !has_chunks_ && !splits_backward_);
  for (const RecordedGroup& group : record_.groups())
    members_.push_back(positions_in(group, programs));
}

bool RankReplay::advance() {
  bool moved = false;
  while (!is_done()) {
    const RecordedWork& work = record_.rest().work[next_];
    if (work.kind == Kind::piece) {
      run_piece(work.key);
    } else if (!run(work, costs_.rest()[next_])) {
      return moved;
    }
    ++next_;
    moved = true;
  }
  if (is_done()) result_.end = std::max(compute_.at, host_.at);
  return moved;
}

Clock RankReplay::end() const {
  Clock end = compute_;
  end.wait_for(host_);
  for (const auto& [name, clock] : lanes_) end.wait_for(clock);
  end.wait_for(rendezvous_.end_of_sends(position_));
  return end;
}

// Records the start time of the last pass, after its waits.
void RankReplay::note_pass(const WorkKey& key) {
  const std::pair pass{key.chunk, key.pass};
  if (!between_passes_ && pass == last_pass_) return;
  between_passes_ = false;
  last_pass_ = pass;
  pass_begin_ = compute_;
}

// Time at which the stack posts the receive that ours posts now: some stacks are one pass earlier,
// before a weight gradient pass, in V-shaped schedules before any pass, and in the interleaved one
// before a forward pass followed by another backward pass.
const Clock& RankReplay::ready_to_receive() const {
  if (!costs_.model().stack().early_receives) return compute_;
  const int last = last_pass_.second;
  const bool early =
      last == weight_grad_pass || (has_chunks_ && (splits_backward_ || last == forward_pass));
  return early ? pass_begin_ : compute_;
}

bool RankReplay::run(const RecordedWork& work, const WorkCost& cost) {
  if (work.kind == Kind::wait) return wait(work.operation);
  if (work.kind == Kind::message) return start(work, cost);
  work.operation < 0 ? compute(work, cost) : transfer(work, cost);
  return true;
}

void RankReplay::compute(const RecordedWork& work, const WorkCost& cost) {
  host_.spend(TimeKind::host, costs_.model().host());
  compute_.wait_for(host_);
  const double begin = compute_.at;
  spend(cost.kind, cost.seconds);
  if (host_waits(work)) host_.wait_for(compute_);
  if (!*work.op) keep("compute", begin, compute_.at, [&] { return std::string(work.name); });
}

// A copy between device and host, on a lane per direction, after all previous work of the device.
// The data to be read may just have been written.
void RankReplay::transfer(const RecordedWork& work, const WorkCost& cost) {
  host_.spend(TimeKind::host, costs_.model().host());
  const bool reads = work.kind == Kind::load;
  const char* const name = reads ? from_host : to_host;
  Clock& lane = lanes_[name];
  lane.wait_for(compute_);
  lane.wait_for(host_);
  if (reads) lane.wait_for(lanes_[to_host]);
  const double begin = lane.at;
  lane.spend(cost.kind, cost.seconds);
  operations_[static_cast<std::size_t>(work.operation)] = {
      .work = &work, .cost = cost, .end = lane};
  keep(name, begin, lane.at, [&] { return std::string(work.name); });
}

void RankReplay::spend(TimeKind kind, double seconds) {
  compute_.spend(kind, seconds);
  result_.busy[static_cast<std::size_t>(kind)] += seconds;
}

// False: the stack blocks on it, and its duration is not yet known.
bool RankReplay::start(const RecordedWork& work, const WorkCost& cost) {
  Operation& operation = operations_[static_cast<std::size_t>(work.operation)];
  const bool sends = work.message == MessageKind::send;
  if (sends && operation.flight && !operation.end) return wait(work.operation);
  if (cost.beside > 0)
    spend(cost.kind == TimeKind::tensor ? TimeKind::kernels : TimeKind::states, cost.beside);
  const RecordedGroup& group = record_.group_of(work);
  operation = {.work = &work, .cost = cost};
  if (work.message == MessageKind::receive) {
    operation.flight = &rendezvous_.receive(work.peer, position_, ready_to_receive());
    between_passes_ = true;
    return true;
  }
  if (sends) {
    between_passes_ = true;
    operation.flight = &rendezvous_.send(
        position_, work.peer,
        {.sent = compute_, .cost = cost, .name = work.name, .lane = group.name.c_str()});
    return !sends_block_ || wait(work.operation);
  }
  Clock& lane = lanes_[lane_of(group.name, cost.kind)];
  lane.wait_for(compute_);
  if (members_[static_cast<std::size_t>(work.group)] > 1) {
    operation.number = numbers_[group.name]++;
    Rendezvous& rendezvous = rendezvous_.collective(group.name, operation.number);
    rendezvous.begin.wait_for(lane);
    ++rendezvous.arrived;
    return true;
  }
  complete(operation, lane);
  lane = *operation.end;
  if (cost.kind == TimeKind::gradients && costs_.model().stack().blocking_gradients)
    wait_on(operation);
  return true;
}

void RankReplay::complete(Operation& operation, Clock begin) {
  const RecordedGroup& group = record_.group_of(*operation.work);
  const double at = begin.at;
  begin.spend(operation.cost.kind, operation.cost.seconds);
  operation.end = begin;
  keep(group.name.c_str(), at, begin.at, [&] { return std::string(operation.work->name); });
}

// Computes the time of a send, a receive or a collective with other positions. False if it is not
// known yet.
bool RankReplay::settle(Operation& operation) {
  if (operation.flight) {
    const bool sends = operation.work->message == MessageKind::send;
    rendezvous_.settle(sends ? position_ : operation.work->peer);
    operation.end = operation.flight->end;
    return operation.end.has_value();
  }
  const std::string& group = record_.group_of(*operation.work).name;
  const Rendezvous& rendezvous = rendezvous_.collective(group, operation.number);
  if (rendezvous.arrived < members_[static_cast<std::size_t>(operation.work->group)]) return false;
  complete(operation, rendezvous.begin);
  lanes_[lane_of(group, operation.cost.kind)].wait_for(*operation.end);
  return true;
}

bool RankReplay::wait(std::int32_t number) {
  Operation& operation = operations_[static_cast<std::size_t>(number)];
  TRIREME_CHECK(operation.work);
  if (!operation.end && !settle(operation)) return false;
  wait_on(operation);
  return true;
}

void RankReplay::wait_on(const Operation& operation) {
  const TimeKind kind = operation.cost.kind;
  result_.waits[static_cast<std::size_t>(kind)] += std::max(0.0, operation.end->at - compute_.at);
  compute_.wait_for(*operation.end);
  if (operation.work->message == MessageKind::receive && costs_.gather() > 0)
    spend(TimeKind::pipeline, costs_.gather());
  if (kind == TimeKind::totals) host_.wait_for(*operation.end);
}

}  // namespace trireme
