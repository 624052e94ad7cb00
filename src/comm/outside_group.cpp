// Outside operations in the engine, which queries them but never advances them.
#include "comm/outside_group.h"

#include "comm/engine.h"
#include "comm/group.h"

namespace trireme {
namespace {

// State shared by the group and its operations.
struct SharedGroup {
  ProgressEngine& engine;
  std::unique_ptr<GroupState> state;
  // Operations called so far; the group's state counts those that were reached.
  std::uint64_t collectives = 0;
  std::vector<std::uint64_t> sends, receives;

  SharedGroup(ProgressEngine& e, std::unique_ptr<GroupState> s)
      : engine(e),
        state(std::move(s)),
        sends(state->world_ranks.size()),
        receives(state->world_ranks.size()) {
    engine.add_group(*state);
  }
  ~SharedGroup() { engine.remove_group(std::move(state)); }
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;
};

class Called final : public Operation, public OutsideOperation {
 public:
  Called(std::shared_ptr<SharedGroup> group, Label label, std::span<const Transfer> transfers)
      : Operation(*group->state, label), shared_(std::move(group)) {
    if (transfers.empty())
      expectations_.push_back({Expectation::Kind::collective, shared_->collectives++, -1});
    for (const Transfer& t : transfers) {
      const bool sends = t.direction == Transfer::Direction::send;
      auto& count = (sends ? shared_->sends : shared_->receives)[static_cast<std::size_t>(t.peer)];
      expectations_.push_back(
          {sends ? Expectation::Kind::send : Expectation::Kind::receive, count++, t.peer});
    }
  }
  ~Called() override {
    if (reached_ && !done()) shared_->engine.end_outside(*this);
  }

  Advance advance(Wire&) override { return {false, false}; }
  Expectation expectation() const override { return expectations_.front(); }
  std::int64_t sent_bytes() const override { return 0; }

  void reach() override {
    reached_ = true;
    shared_->engine.begin_outside(*this, [&] {
      for (const Expectation& e : expectations_) {
        GroupState& state = *shared_->state;
        if (e.kind == Expectation::Kind::collective) {
          ++state.collectives;
        } else {
          ++(e.kind == Expectation::Kind::send ? state.sends
                                               : state.receives)[static_cast<std::size_t>(e.peer)];
        }
      }
    });
  }
  void finish() override {
    if (!reached_) reach();
    shared_->engine.end_outside(*this);
    Operation::finish();
  }
  void check(double seconds) override {
    if (seconds <= allowed_ + shared_->engine.timeout_s()) return;
    shared_->engine.expire_outside(*this, seconds);
    allowed_ = seconds;
  }

 private:
  std::shared_ptr<SharedGroup> shared_;
  std::vector<Expectation> expectations_;
  bool reached_ = false;
  double allowed_ = 0;  // end of the last excuse
};

class Outside final : public OutsideGroup {
 public:
  Outside(ProgressEngine& engine, std::vector<int> ranks, int rank, const std::string& name)
      : shared_(std::make_shared<SharedGroup>(
            engine, std::make_unique<GroupState>(std::move(ranks), rank, name))) {}

  std::shared_ptr<OutsideOperation> call(Label label,
                                         std::span<const Transfer> transfers) override {
    return std::make_shared<Called>(shared_, label, transfers);
  }

 private:
  std::shared_ptr<SharedGroup> shared_;
};

}  // namespace

std::unique_ptr<OutsideGroup> make_outside_group(ProgressEngine& engine, std::vector<int> ranks,
                                                 int rank, const std::string& name) {
  return std::make_unique<Outside>(engine, std::move(ranks), rank, name);
}

}  // namespace trireme
