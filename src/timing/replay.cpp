// Each rank goes on as far as the messages that it waits for are known; then others take their
// turn.
#include "timing/replay.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "timing/eager.h"

namespace trireme {
namespace {

using Kind = RecordedWork::Kind;

constexpr const char *from_host = "from the host", *to_host = "to the host";  // lanes
constexpr int forward_pass = 0, backward_pass = 1, weight_grad_pass = 2;
constexpr const char* pass_names[] = {"forward", "backward", "weight gradient", "evaluation"};

struct Cost {
  double seconds = 0;
  double beside = 0;  // on the compute queue
  TimeKind kind = TimeKind::kernels;
};

// Of a piece: of each work, and what else the device does in it.
struct PieceCost {
  std::vector<Cost> work;
  TimeByKind besides{};
};

// What a piece does that begins with free lanes and a host that is ahead: everything happens at
// fixed times after its begin.
struct Effect {
  bool contained = false;  // what it starts, it waits for, and it waits for nothing else
  Clock compute;           // from its begin, as the lanes that it leaves
  std::vector<std::pair<std::string, Clock>> lanes;
  TimeByKind busy{}, waits{};
  double host = 0;
};

// A collective of ranks on several pipeline positions.
struct Meeting {
  int arrived = 0;
  Clock begin;
};

// A message from one position to another: it begins when both have come to it, and when the
// sender's earlier ones are across.
struct Flight {
  std::optional<Clock> sent, received;  // when the sender and the receiver begin with it
  Cost cost;
  const char *name = "", *lane = "";
  std::optional<Clock> end;
};

// What ranks of different positions know of each other.
class Meetings {
 public:
  explicit Meetings(std::vector<TimedEvent>* events) : events_(events) {}

  std::map<std::pair<std::string, int>, Meeting> collectives;  // by group and number

  // The next message between two positions, as each side comes to it.
  Flight& send(int from, int to, const Flight& begun) {
    Channel& channel = channels_[{from, to}];
    Flight& flight = channel.at(channel.sends++);
    const std::optional<Clock> received = flight.received;
    flight = begun;
    flight.received = received;
    lanes_[from].waiting.push_back(&flight);
    return flight;
  }
  Flight& receive(int from, int to, const Clock& begin) {
    Channel& channel = channels_[{from, to}];
    Flight& flight = channel.at(channel.receives++);
    flight.received = begin;
    return flight;
  }
  // As far as is known what `from` sends.
  void settle(int from) {
    Lane& lane = lanes_[from];
    while (!lane.waiting.empty() && lane.waiting.front()->received) {
      Flight& flight = *lane.waiting.front();
      lane.waiting.pop_front();
      lane.free.wait_for(*flight.sent);
      lane.free.wait_for(*flight.received);
      const double begin = lane.free.at;
      lane.free.spend(flight.cost.kind, flight.cost.seconds);
      flight.end = lane.free;
      if (events_ && lane.free.at > begin)
        events_->push_back({from, flight.lane, flight.name, begin, lane.free.at});
    }
  }
  // When all that `from` has sent is across.
  const Clock& end_of_sends(int from) {
    settle(from);
    TRIREME_CHECK(lanes_[from].waiting.empty());
    return lanes_[from].free;
  }

 private:
  struct Channel {
    std::deque<Flight> flights;
    std::size_t sends = 0, receives = 0;

    Flight& at(std::size_t number) {
      if (number == flights.size()) flights.emplace_back();
      return flights[number];
    }
  };
  struct Lane {
    std::deque<Flight*> waiting;
    Clock free;
  };

  std::map<std::pair<int, int>, Channel> channels_;  // by sender, receiver
  std::map<int, Lane> lanes_;                        // of sends, by sender
  std::vector<TimedEvent>* events_;
};

class RankReplay {
 public:
  RankReplay(int position, const std::vector<const Record*>& programs, const CostModel& costs,
             Meetings& meetings, std::vector<TimedEvent>* events)
      : position_(position),
        record_(*programs[static_cast<std::size_t>(position)]),
        costs_(costs),
        kernels_(costs, record_),
        meetings_(meetings),
        events_(events),
        operations_(static_cast<std::size_t>(record_.operations())) {
    for (const RecordedGroup& group : record_.groups()) groups_.push_back(costs_.costs_of(group));
    adds_up_ = costs.stack().accumulation_traffic > 0 && adds_up_gradients();
    if (costs.stack().shared_sends) share_sends();
    for (const auto& [key, piece] : record_.pieces()) price(piece, pieces_[key].work);
    if (costs.stack().whole_recomputation) add_dead_ends();
    if (costs.stack().every_second_again) add_what_runs_again();
    const Stack::Blocking blocking = costs.stack().blocking_sends;
    for (const auto& [key, piece] : record_.pieces()) {
      has_chunks_ |= key.chunk > 0;
      splits_backward_ |= key.pass == weight_grad_pass;
    }
    sends_block_ = blocking == Stack::Blocking::always ||
                   (blocking == Stack::Blocking::in_1f1b && !has_chunks_ && !splits_backward_);
    price(record_.rest(), rest_);
    const auto count = static_cast<int>(programs.size());
    for (const RecordedGroup& group : record_.groups()) {
      // Ranks that stand for a position: equal steps apart, as the pipeline's group has them.
      int members = 0;
      for (int p = 0; p < count; ++p)
        members +=
            std::binary_search(group.ranks.begin(), group.ranks.end(), first_rank(programs, p));
      members_.push_back(members);
    }
  }

  bool is_done() const { return next_ == record_.rest().work.size(); }

  // Goes on until the end or until something that is not known yet; returns whether it moved.
  bool advance() {
    bool moved = false;
    while (!is_done()) {
      const RecordedWork& work = record_.rest().work[next_];
      if (work.kind == Kind::piece) {
        run_piece(work.key);
      } else if (!run(work, rest_[next_])) {
        return moved;
      }
      ++next_;
      moved = true;
    }
    if (is_done()) result_.end = std::max(compute_.at, host_.at);
    return moved;
  }

  // Seconds of the pieces, each on its own.
  std::map<WorkKey, PieceTime> alone() {
    std::map<WorkKey, PieceTime> times;
    for (const auto& [key, piece] : record_.pieces()) {
      const Effect& effect = effect_of(key);
      times[key] = {effect.compute.at, effect.host};
    }
    return times;
  }

  const RankTime& result() const { return result_; }
  Clock end() const {
    Clock end = compute_;
    end.wait_for(host_);
    for (const auto& [name, clock] : lanes_) end.wait_for(clock);
    end.wait_for(meetings_.end_of_sends(position_));
    return end;
  }

 private:
  static int first_rank(const std::vector<const Record*>& programs, int position) {
    const auto& groups = programs[static_cast<std::size_t>(position)]->groups();
    return groups.empty() ? position : groups[0].ranks[static_cast<std::size_t>(groups[0].own)];
  }

  // Whether gradients of micro-batches are added up before they are summed over ranks: fewer sums
  // than half of the backward passes of segments.
  bool adds_up_gradients() const {
    double sums = 0, passes = 0;
    record_.for_each([&](const RecordedWork& work, std::int64_t times) {
      if (work.kind == Kind::message &&
          groups_[static_cast<std::size_t>(work.group)].kind == TimeKind::gradients)
        sums += static_cast<double>(times);
    });
    for (const auto& [key, piece] : record_.pieces())
      if (key.pass == backward_pass) passes += static_cast<double>(piece.times);
    return 2 * sums < passes;
  }

  // What a stage sends is cut among the ranks of its tensor group, and gathered where it arrives.
  void share_sends() {
    std::size_t tensor = 0;
    while (tensor < groups_.size() && groups_[tensor].kind != TimeKind::tensor) ++tensor;
    if (tensor == groups_.size()) return;
    const RecordedGroup& group = record_.groups()[tensor];
    const auto ranks = static_cast<double>(group.ranks.size());
    if (ranks < 2) return;
    double bytes = 0;
    record_.for_each([&](const RecordedWork& work, std::int64_t) {
      if (work.kind == Kind::message && work.message == MessageKind::send)
        bytes = std::max(bytes, work.bytes);
    });
    senders_ = ranks;
    RecordedWork gather{.kind = Kind::message, .message = MessageKind::all_gather};
    gather.bytes = bytes * (ranks - 1) / ranks;
    gather_ = costs_.message(gather, group, groups_[tensor]);
  }

  void price(const RecordedPiece& piece, std::vector<Cost>& costs) const {
    for (const RecordedWork& work : piece.work) {
      Cost cost;
      if (work.kind == Kind::message) {
        const RecordedGroup& group = record_.group_of(work);
        const GroupCosts& of_group = groups_[static_cast<std::size_t>(work.group)];
        RecordedWork sent = work;
        if (work.message == MessageKind::send) sent.bytes /= senders_;
        cost = {costs_.message(sent, group, of_group), costs_.beside(work, group, of_group),
                of_group.kind};
      } else if (work.kind != Kind::wait && work.kind != Kind::piece) {
        cost = {kernels_.seconds(work), 0, costs_.kind_of(work)};
        if (adds_up_ && std::string_view(work.op) == "linear_weight_grad")
          cost.seconds += costs_.stack().accumulation_traffic *
                          static_cast<double>(work.product.rows * work.product.columns) /
                          costs_.machine().memory_rate;
      }
      costs.push_back(cost);
    }
  }

  // Where a backward pass recomputes a layer, our graph leaves out what nobody reads: the
  // difference to the whole forward pass. A sum over ranks has its dual among the gradients too.
  void add_dead_ends() {
    for (auto& [key, cost] : pieces_) {
      if (key.pass != backward_pass) continue;
      const auto forward = pieces_.find({key.chunk, forward_pass, key.segment, false});
      if (forward == pieces_.end()) continue;
      const std::vector<RecordedWork>& again = record_.pieces().at(key).work;
      const auto is_product = [](const RecordedWork& work) {
        return std::string_view(work.op) == "linear";
      };
      if (std::none_of(again.begin(), again.end(), is_product)) continue;
      const std::vector<RecordedWork>& first = record_.pieces().at(forward->first).work;
      const auto sum = [](const std::vector<RecordedWork>& work, const std::vector<Cost>& costs,
                          std::string_view op) {
        double seconds = 0;
        for (std::size_t i = 0; i < work.size(); ++i)
          if (op == work[i].op) seconds += costs[i].seconds;
        return seconds;
      };
      for (const auto& [op, kind, times] :
           {std::tuple{"linear", TimeKind::products, 1}, {"all_reduce", TimeKind::tensor, 2}}) {
        const double missing =
            times * sum(first, forward->second.work, op) - sum(again, cost.work, op);
        cost.besides[static_cast<std::size_t>(kind)] += std::max(0.0, missing);
      }
    }
  }

  // What the stack computes again in the backward pass of a layer although ours keeps it.
  void add_what_runs_again() {
    for (auto& [key, cost] : pieces_) {
      if (key.pass != backward_pass) continue;
      const auto forward = record_.pieces().find({key.chunk, forward_pass, key.segment, false});
      if (forward == record_.pieces().end()) continue;
      const ForeignKernels::Again again = kernels_.again(forward->second);
      cost.besides[static_cast<std::size_t>(TimeKind::products)] += again.products;
      cost.besides[static_cast<std::size_t>(TimeKind::kernels)] += again.kernels;
    }
  }

  // Where the last pass began, after whatever it waited for.
  void note_pass(const WorkKey& key) {
    const std::pair pass{key.chunk, key.pass};
    if (!between_passes_ && pass == last_pass_) return;
    between_passes_ = false;
    last_pass_ = pass;
    pass_begin_ = compute_;
  }

  // When the stack is ready to receive what ours asks for now: some are one pass earlier, before a
  // pass of weight gradients, in V-shaped schedules before any, and in the interleaved one before a
  // forward pass that another backward pass follows.
  const Clock& ready_to_receive() const {
    if (!costs_.stack().early_receives) return compute_;
    const int last = last_pass_.second;
    const bool early =
        last == weight_grad_pass || (has_chunks_ && (splits_backward_ || last == forward_pass));
    return early ? pass_begin_ : compute_;
  }

  void run_piece(const WorkKey& key) {
    note_pass(key);
    if (!events_ && apply(effect_of(key))) return;
    const double begin = compute_.at;
    run_works(key);
    keep("compute", begin, compute_.at,
         [&] { return fmt::format("{} {}.{}", pass_names[key.pass], key.chunk, key.segment); });
  }

  void run_works(const WorkKey& key) {
    const RecordedPiece& piece = record_.pieces().at(key);
    const PieceCost& costs = pieces_.at(key);
    for (std::size_t i = 0; i < piece.work.size(); ++i)
      TRIREME_CHECK(run(piece.work[i], costs.work[i]));
    for (std::size_t k = 0; k < time_kinds; ++k) spend(static_cast<TimeKind>(k), costs.besides[k]);
  }

  bool is_contained(const RecordedPiece& piece) const {
    std::vector<std::int32_t> under_way;
    for (const RecordedWork& work : piece.work) {
      if (host_waits(work)) return false;
      if (work.kind == Kind::message) {
        const bool alone = members_[static_cast<std::size_t>(work.group)] <= 1;
        if (!alone || work.message == MessageKind::send || work.message == MessageKind::receive)
          return false;
        under_way.push_back(work.operation);
      } else if (work.kind == Kind::wait && std::erase(under_way, work.operation) == 0) {
        return false;
      }
    }
    return under_way.empty();
  }

  const Effect& effect_of(const WorkKey& key) {
    const auto [known, is_new] = effects_.try_emplace(key);
    Effect& effect = known->second;
    if (!is_new) return effect;
    const RecordedPiece& piece = record_.pieces().at(key);
    effect.contained = is_contained(piece);
    const PieceCost& costs = pieces_.at(key);
    for (const RecordedWork& work : piece.work)
      if (is_kernel(work)) effect.host += costs_.host();
    if (!effect.contained) {
      for (const Cost& cost : costs.work) effect.compute.spend(cost.kind, cost.beside);
      for (std::size_t i = 0; i < piece.work.size(); ++i)
        if (is_kernel(piece.work[i]))
          effect.compute.spend(costs.work[i].kind, costs.work[i].seconds);
      return effect;
    }
    const auto outside = std::tuple(compute_, host_, std::exchange(lanes_, {}), result_);
    compute_ = {};
    host_ = {.at = -1e30};
    result_ = {};
    run_works(key);
    effect.compute = compute_;
    effect.lanes.assign(lanes_.begin(), lanes_.end());
    effect.busy = result_.busy;
    effect.waits = result_.waits;
    std::tie(compute_, host_, lanes_, result_) = outside;
    return effect;
  }

  static bool host_waits(const RecordedWork& work) {
    return work.kind == Kind::read || (work.kind == Kind::load && work.operation < 0);
  }

  static bool is_kernel(const RecordedWork& work) {
    return work.kind != Kind::message && work.kind != Kind::wait && work.kind != Kind::piece;
  }

  // All of a piece at once; false where it begins in another state.
  bool apply(const Effect& effect) {
    if (!effect.contained || host_.at + effect.host > compute_.at) return false;
    for (const auto& [name, clock] : effect.lanes)
      if (lanes_[name].at > compute_.at) return false;
    const auto add = [](TimeByKind& sum, const TimeByKind& more) {
      for (std::size_t k = 0; k < time_kinds; ++k) sum[k] += more[k];
    };
    const auto after = [&](const Clock& clock) {
      Clock end = compute_;
      end.at += clock.at;
      add(end.path, clock.path);
      return end;
    };
    for (const auto& [name, clock] : effect.lanes) lanes_[name] = after(clock);
    compute_ = after(effect.compute);
    host_.spend(TimeKind::host, effect.host);
    add(result_.busy, effect.busy);
    add(result_.waits, effect.waits);
    return true;
  }

  // False: it waits for what is not known yet, and nothing has changed.
  bool run(const RecordedWork& work, const Cost& cost) {
    switch (work.kind) {
      case Kind::wait:
        return wait(work.operation);
      case Kind::message:
        return start(work, cost);
      default:
        work.operation < 0 ? compute(work, cost) : transfer(work, cost);
        return true;
    }
  }

  void compute(const RecordedWork& work, const Cost& cost) {
    host_.spend(TimeKind::host, costs_.host());
    compute_.wait_for(host_);
    const double begin = compute_.at;
    spend(cost.kind, cost.seconds);
    if (host_waits(work)) host_.wait_for(compute_);
    if (!*work.op) keep("compute", begin, compute_.at, [&] { return std::string(work.name); });
  }

  // A copy between the device and its host, on a lane of its direction, behind what the device was
  // told to do before. What is read may just have been written.
  void transfer(const RecordedWork& work, const Cost& cost) {
    host_.spend(TimeKind::host, costs_.host());
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

  void spend(TimeKind kind, double seconds) {
    compute_.spend(kind, seconds);
    result_.busy[static_cast<std::size_t>(kind)] += seconds;
  }

  // False: the stack waits for it at once, and does not know yet how long.
  bool start(const RecordedWork& work, const Cost& cost) {
    Operation& operation = operations_[static_cast<std::size_t>(work.operation)];
    const bool sends = work.message == MessageKind::send;
    if (sends && operation.flight && !operation.end) return wait(work.operation);
    if (cost.beside > 0)
      spend(cost.kind == TimeKind::tensor ? TimeKind::kernels : TimeKind::states, cost.beside);
    const RecordedGroup& group = record_.group_of(work);
    operation = {.work = &work, .cost = cost};
    if (work.message == MessageKind::receive) {
      operation.flight = &meetings_.receive(work.peer, position_, ready_to_receive());
      between_passes_ = true;
      return true;
    }
    if (sends) {
      between_passes_ = true;
      operation.flight = &meetings_.send(
          position_, work.peer,
          {.sent = compute_, .cost = cost, .name = work.name, .lane = group.name.c_str()});
      return !sends_block_ || wait(work.operation);
    }
    Clock& lane = lanes_[lane_of(group.name, cost.kind)];
    lane.wait_for(compute_);
    if (members_[static_cast<std::size_t>(work.group)] > 1) {
      operation.number = numbers_[group.name]++;
      Meeting& meeting = meetings_.collectives[{group.name, operation.number}];
      meeting.begin.wait_for(lane);
      ++meeting.arrived;
      return true;
    }
    complete(operation, lane);
    lane = *operation.end;
    if (cost.kind == TimeKind::gradients && costs_.stack().blocking_gradients) wait_on(operation);
    return true;
  }

  // A message on its way: what it is, and once that is known, when it has arrived.
  struct Operation {
    const RecordedWork* work = nullptr;
    Cost cost;
    Flight* flight = nullptr;  // of a send or a receive
    int number = -1;           // among a group's collectives of several positions
    std::optional<Clock> end;
  };

  // Sums of gradients and gathered parameters have the same links to share.
  static const std::string& lane_of(const std::string& group, TimeKind kind) {
    static const std::string states = "states";
    return kind == TimeKind::gradients || kind == TimeKind::parameters ? states : group;
  }

  void complete(Operation& operation, Clock begin) {
    const RecordedGroup& group = record_.group_of(*operation.work);
    const double at = begin.at;
    begin.spend(operation.cost.kind, operation.cost.seconds);
    operation.end = begin;
    keep(group.name.c_str(), at, begin.at, [&] { return std::string(operation.work->name); });
  }

  // Of a send, a receive or a collective with other positions. False where it is not known yet.
  bool settle(Operation& operation) {
    if (operation.flight) {
      const bool sends = operation.work->message == MessageKind::send;
      meetings_.settle(sends ? position_ : operation.work->peer);
      operation.end = operation.flight->end;
      return operation.end.has_value();
    }
    const std::string& group = record_.group_of(*operation.work).name;
    const Meeting& meeting = meetings_.collectives.at({group, operation.number});
    if (meeting.arrived < members_[static_cast<std::size_t>(operation.work->group)]) return false;
    complete(operation, meeting.begin);
    lanes_[lane_of(group, operation.cost.kind)].wait_for(*operation.end);
    return true;
  }

  bool wait(std::int32_t number) {
    Operation& operation = operations_[static_cast<std::size_t>(number)];
    TRIREME_CHECK(operation.work);
    if (!operation.end && !settle(operation)) return false;
    wait_on(operation);
    return true;
  }

  void wait_on(const Operation& operation) {
    const TimeKind kind = operation.cost.kind;
    result_.waits[static_cast<std::size_t>(kind)] += std::max(0.0, operation.end->at - compute_.at);
    compute_.wait_for(*operation.end);
    if (operation.work->message == MessageKind::receive && gather_ > 0)
      spend(TimeKind::pipeline, gather_);
    if (kind == TimeKind::totals) host_.wait_for(*operation.end);
  }

  template <class Name>
  void keep(const char* lane, double begin, double end, const Name& name) {
    if (events_ && end > begin) events_->push_back({position_, lane, name(), begin, end});
  }

  const int position_;
  const Record& record_;
  const CostModel& costs_;
  const ForeignKernels kernels_;
  Meetings& meetings_;
  std::vector<TimedEvent>* events_;
  std::map<WorkKey, PieceCost> pieces_;
  std::map<WorkKey, Effect> effects_;
  std::vector<Cost> rest_;
  std::vector<GroupCosts> groups_;
  std::vector<int> members_;                           // by group: positions
  bool has_chunks_ = false, splits_backward_ = false;  // the schedule
  bool sends_block_ = false;                           // until they are across
  bool adds_up_ = false;                               // gradients of micro-batches
  double senders_ = 1;  // of a message to the next stage: each has a share of it
  double gather_ = 0;   // seconds to put the shares together
  // Of chunks and kinds of passes: the last one, and when it began.
  std::pair<int, int> last_pass_{-1, -1};
  Clock pass_begin_;
  bool between_passes_ = true;
  std::size_t next_ = 0;
  Clock compute_, host_;
  std::map<std::string, Clock> lanes_;
  std::map<std::string, int> numbers_;  // of collectives with other positions, by group
  std::map<int, int> received_;         // messages, by sender
  std::vector<Operation> operations_;
  RankTime result_;
};

}  // namespace

std::map<WorkKey, PieceTime> times_alone(const Record& record, const CostModel& costs) {
  Meetings meetings(nullptr);
  return RankReplay(0, {&record}, costs, meetings, nullptr).alone();
}

Replay replay(const std::vector<const Record*>& programs, const CostModel& costs, bool events) {
  Replay result;
  Meetings meetings(events ? &result.events : nullptr);
  std::vector<std::unique_ptr<RankReplay>> ranks;
  for (int p = 0; p < static_cast<int>(programs.size()); ++p) {
    ranks.push_back(std::make_unique<RankReplay>(p, programs, costs, meetings,
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

std::string chrome_trace(const Replay& replay) {
  std::string text = "[";
  std::map<std::pair<int, std::string>, int> lanes;
  for (const TimedEvent& event : replay.events)
    lanes.emplace(std::pair{event.rank, event.lane}, static_cast<int>(lanes.size()));
  for (std::size_t p = 0; p < replay.ranks.size(); ++p) {
    text += fmt::format(
        R"({}{{"name":"process_name","ph":"M","pid":{},"args":{{"name":"rank of pp {}"}}}})",
        p == 0 ? "" : ",\n", p, p);
  }
  for (const auto& [lane, thread] : lanes) {
    text += fmt::format(
        ",\n"
        R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
        lane.first, thread, lane.second);
  }
  for (const TimedEvent& event : replay.events) {
    text += fmt::format(
        ",\n"
        R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})",
        event.name, event.rank, lanes.at({event.rank, event.lane}), event.begin * 1e6,
        (event.end - event.begin) * 1e6);
  }
  return text + "]\n";
}

}  // namespace trireme
