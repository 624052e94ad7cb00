// Costs of each work item by the cost model, and the extra work of another stack.
#include "plan/timing/rank_costs.h"

#include <algorithm>
#include <string_view>
#include <tuple>

namespace trireme {
namespace {

using Kind = RecordedWork::Kind;

double seconds_of(const std::vector<RecordedWork>& work, const std::vector<WorkCost>& costs,
                  std::string_view op) {
  double seconds = 0;
  for (std::size_t i = 0; i < work.size(); ++i)
    if (op == work[i].op) seconds += costs[i].seconds;
  return seconds;
}

}  // namespace

RankCosts::RankCosts(const CostModel& model, const Record& record)
    : model_(model), record_(record), kernels_(model, record) {
  const Stack& stack = model.stack();
  for (const RecordedGroup& group : record.groups()) groups_.push_back(model.costs_of(group));
  adds_up_ = stack.accumulation_traffic > 0 && adds_up_gradients();
  if (stack.shared_sends) share_sends();
  for (const auto& [key, piece] : record.pieces()) price(piece, pieces_[key].work);
  if (stack.whole_recomputation) add_dead_ends();
  if (stack.every_second_again) add_what_runs_again();
  price(record.rest(), rest_);
}

// Whether gradients of micro-batches are accumulated before the reduction over ranks: fewer
// reductions than half of the segments' backward passes.
bool RankCosts::adds_up_gradients() const {
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

// Each rank of a tensor group sends a part of the stage's message; the receivers gather it.
void RankCosts::share_sends() {
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
  gather_ = model_.message(gather, group, groups_[tensor]);
}

void RankCosts::price(const RecordedPiece& piece, std::vector<WorkCost>& costs) const {
  for (const RecordedWork& work : piece.work) costs.push_back(cost_of(work));
}

WorkCost RankCosts::cost_of(const RecordedWork& work) const {
  if (work.kind == Kind::wait || work.kind == Kind::piece) return {};
  if (work.kind == Kind::message) {
    const RecordedGroup& group = record_.group_of(work);
    const GroupCosts& of_group = groups_[static_cast<std::size_t>(work.group)];
    RecordedWork sent = work;
    if (work.message == MessageKind::send) sent.bytes /= senders_;
    return {model_.message(sent, group, of_group), model_.beside(work, group, of_group),
            of_group.kind};
  }
  WorkCost cost = {kernels_.seconds(work), 0, model_.kind_of(work)};
  if (adds_up_ && std::string_view(work.op) == "linear_weight_grad")
    cost.seconds += model_.stack().accumulation_traffic *
                    static_cast<double>(work.product.rows * work.product.columns) /
                    model_.machine().memory_rate;
  return cost;
}

// Our graph omits unused outputs when a backward pass recomputes a layer: adds the difference to
// the full forward pass. A sum over ranks also has its dual among the gradients.
void RankCosts::add_dead_ends() {
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
    for (const auto& [op, kind, times] :
         {std::tuple{"linear", TimeKind::products, 1}, {"all_reduce", TimeKind::tensor, 2}}) {
      const double missing =
          times * seconds_of(first, forward->second.work, op) - seconds_of(again, cost.work, op);
      cost.besides[static_cast<std::size_t>(kind)] += std::max(0.0, missing);
    }
  }
}

// Adds what the stack recomputes in a layer's backward pass although ours saves it.
void RankCosts::add_what_runs_again() {
  for (auto& [key, cost] : pieces_) {
    if (key.pass != backward_pass) continue;
    const auto forward = record_.pieces().find({key.chunk, forward_pass, key.segment, false});
    if (forward == record_.pieces().end()) continue;
    const ForeignKernels::Again again = kernels_.again(forward->second);
    cost.besides[static_cast<std::size_t>(TimeKind::products)] += again.products;
    cost.besides[static_cast<std::size_t>(TimeKind::kernels)] += again.kernels;
  }
}

}  // namespace trireme
