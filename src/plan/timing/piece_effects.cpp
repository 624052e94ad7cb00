// Repeated pieces of a step: a piece that waits only for what it starts always takes the same time,
// so it is replayed once and then applied as a whole.
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "plan/timing/rank_replay.h"

namespace trireme {
namespace {

constexpr const char* pass_names[] = {"forward", "backward", "weight gradient", "evaluation"};

}  // namespace

std::map<WorkKey, PieceTime> RankReplay::alone() {
  std::map<WorkKey, PieceTime> times;
  for (const auto& [key, piece] : record_.pieces()) {
    const Effect& effect = effect_of(key);
    times[key] = {effect.compute.at, effect.host};
  }
  return times;
}

void RankReplay::run_piece(const WorkKey& key) {
  note_pass(key);
  if (!events_ && apply(effect_of(key))) return;
  const double begin = compute_.at;
  run_works(key);
  keep("compute", begin, compute_.at,
       [&] { return fmt::format("{} {}.{}", pass_names[key.pass], key.chunk, key.segment); });
}

void RankReplay::run_works(const WorkKey& key) {
  const RecordedPiece& piece = record_.pieces().at(key);
  const PieceCost& costs = costs_.piece(key);
  for (std::size_t i = 0; i < piece.work.size(); ++i)
    TRIREME_CHECK(run(piece.work[i], costs.work[i]));
  for (std::size_t k = 0; k < time_kinds; ++k) spend(static_cast<TimeKind>(k), costs.besides[k]);
}

bool RankReplay::is_contained(const RecordedPiece& piece) const {
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

const RankReplay::Effect& RankReplay::effect_of(const WorkKey& key) {
  const auto [known, is_new] = effects_.try_emplace(key);
  Effect& effect = known->second;
  if (!is_new) return effect;
  const RecordedPiece& piece = record_.pieces().at(key);
  effect.contained = is_contained(piece);
  const PieceCost& costs = costs_.piece(key);
  for (const RecordedWork& work : piece.work)
    if (is_kernel(work)) effect.host += costs_.model().host();
  if (!effect.contained) {
    for (const WorkCost& cost : costs.work) effect.compute.spend(cost.kind, cost.beside);
    for (std::size_t i = 0; i < piece.work.size(); ++i)
      if (is_kernel(piece.work[i])) effect.compute.spend(costs.work[i].kind, costs.work[i].seconds);
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

// Applies a whole piece; false if its initial state differs.
bool RankReplay::apply(const Effect& effect) {
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

}  // namespace trireme
