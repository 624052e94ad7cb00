// Turns calls of the communicator interface into operations of the engine.
#include "comm/group.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "comm/collective.h"
#include "comm/counted_wire.h"
#include "comm/rank_list.h"

namespace trireme {
namespace {

class EngineWork final : public Work::Pending {
 public:
  EngineWork(ProgressEngine& engine, std::unique_ptr<Operation> operation,
             std::vector<MemoryRange> touched)
      : engine_(engine), operation_(std::move(operation)), touched_(std::move(touched)) {}

  bool done() override { return operation_->done(); }
  void wait() override { engine_.wait(*operation_); }
  void detach() override { engine_.abandon(std::move(operation_), std::move(touched_)); }

 private:
  ProgressEngine& engine_;
  std::unique_ptr<Operation> operation_;
  std::vector<MemoryRange> touched_;
};

class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(ProgressEngine& engine, std::vector<int> world_ranks, int rank,
                    std::string name, Wire::Context context)
      : Communicator(std::move(world_ranks), rank, std::move(name)),
        engine_(engine),
        owned_state_(std::make_unique<GroupState>(this->world_ranks(), rank, this->name())),
        state_(*owned_state_) {
    state_.context = context;
    engine_.add_group(state_);
  }

  ~GroupCommunicator() override { engine_.remove_group(std::move(owned_state_)); }

  Work all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction,
                  Label label) override {
    if (check(count) == 0) return {};
    return start([&] { return make_all_reduce(state_, label, data, count, dtype, reduction); },
                 {{data, bytes_of(count, dtype)}});
  }

  Work reduce_scatter(const void* src, void* dst, std::int64_t count, DType dtype,
                      Reduction reduction, Label label) override {
    if (check(count) == 0) return {};
    return start(
        [&] { return make_reduce_scatter(state_, label, src, dst, count, dtype, reduction); },
        {{src, bytes_of(count * size(), dtype)}, {dst, bytes_of(count, dtype)}});
  }

  Work all_gather(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    if (check(count) == 0) return {};
    const std::size_t bytes = count * size_of(dtype);
    char* const to = static_cast<char*>(dst);
    if (is_small_gather(bytes, size())) {
      const Block own{const_cast<void*>(src), bytes};  // only read
      return start([&] { return make_small_gather(state_, label, own, dst); },
                   {{dst, bytes * size()}});
    }
    if (src != to + rank() * bytes) std::memcpy(to + rank() * bytes, src, bytes);
    std::vector<Block> sends(size(), {to + rank() * bytes, bytes});
    std::vector<Block> receives(size());
    for (int k = 0; k < size(); ++k) receives[k] = {to + k * bytes, bytes};
    return start([&] { return make_pairwise(state_, label, sends, receives); },
                 {{dst, bytes * size()}});
  }

  Work broadcast(void* data, std::int64_t count, DType dtype, int root, Label label) override {
    if (check(count) == 0) return {};
    const Block block{data, static_cast<std::size_t>(count) * size_of(dtype)};
    return start([&] { return make_broadcast(state_, label, block, root); },
                 {{block.data, block.bytes}});
  }

  Work all_to_all(const void* src, void* dst, std::int64_t count, DType dtype,
                  Label label) override {
    if (check(count) == 0) return {};
    const std::size_t bytes = count * size_of(dtype);
    char* const from = static_cast<char*>(const_cast<void*>(src));  // only read
    char* const to = static_cast<char*>(dst);
    std::memcpy(to + rank() * bytes, from + rank() * bytes, bytes);
    std::vector<Block> sends(size()), receives(size());
    for (int k = 0; k < size(); ++k) {
      sends[k] = {from + k * bytes, bytes};
      receives[k] = {to + k * bytes, bytes};
    }
    return start([&] { return make_pairwise(state_, label, sends, receives); },
                 {{src, bytes * size()}, {dst, bytes * size()}});
  }

  Work barrier(Label label) override {
    return start([&] { return make_barrier(state_, label); }, {});
  }

  Work exchange(std::span<const Transfer> transfers, Label label) override {
    std::vector<MemoryRange> touched;
    for (const Transfer& t : transfers) touched.push_back({t.data, bytes_of(t.count, t.dtype)});
    return start([&] { return make_exchange(state_, label, transfers); }, std::move(touched));
  }

 private:
  static std::int64_t check(std::int64_t count) {
    TRIREME_CHECK(count >= 0);
    return count;
  }

  static std::size_t bytes_of(std::int64_t count, DType dtype) {
    return static_cast<std::size_t>(count) * static_cast<std::size_t>(size_of(dtype));
  }

  template <class Make>
  Work start(Make&& make, std::vector<MemoryRange> touched) {
    std::unique_ptr<Operation> operation = engine_.start(make);
    if (operation->done()) return {};
    return Work(std::make_unique<EngineWork>(engine_, std::move(operation), std::move(touched)));
  }

  ProgressEngine& engine_;
  std::unique_ptr<GroupState> owned_state_;
  GroupState& state_;
};

// Rendezvous, through the world's context, of all members of a group without a context.
class Rendezvous final : public Operation {
 public:
  Rendezvous(GroupState& world, Label label, const std::vector<int>& ranks, int own, int key)
      : Operation(world, label), tag_(first_rendezvous_tag + key) {
    const int n = static_cast<int>(ranks.size());
    for (int distance = 1; distance < n; distance <<= 1) {
      sends_.add(nullptr, 0, ranks[(own + distance) % n]);
      receives_.add(nullptr, 0, ranks[(own - distance + n) % n]);
    }
  }

  Advance advance(Wire& wire) override {
    const bool received = receives_.advance(wire, Wire::world_context, tag_);
    const bool sent = sends_.advance(wire, Wire::world_context, tag_, receives_.completed() + 1);
    return {received || sent, receives_.done() && sends_.done()};
  }

  Expectation expectation() const override {
    const int peer = receives_.done() ? -1 : receives_.next_to_complete().peer;
    return {Expectation::Kind::receive, UINT64_MAX, peer};
  }
  std::int64_t sent_bytes() const override { return sends_.bytes(); }

 private:
  int tag_;
  MessageStream sends_{true};
  MessageStream receives_{false};
};

class WireTransport final : public Transport {
 public:
  WireTransport(std::unique_ptr<Wire> wire, const ProgressOptions& options)
      : wire_(std::make_unique<CountedWire>(std::move(wire))),
        engine_(std::make_unique<ProgressEngine>(*wire_, options)) {
    std::vector<int> ranks(place().size);
    std::iota(ranks.begin(), ranks.end(), 0);
    world_ = std::make_unique<GroupCommunicator>(*engine_, ranks, place().rank, "world",
                                                 Wire::world_context);
    rendezvous_ = std::make_unique<GroupState>(ranks, place().rank, "rendezvous");
  }

  ~WireTransport() override {
    world_.reset();
    engine_.reset();
  }

  void leave() override {
    world_->barrier("end of the job").wait();
    wire_->leave();
  }
  void set_exit_code(int exit_code) override {
    engine_->with_wire([&](Wire& wire) { wire.set_exit_code(exit_code); });
  }

  const Place& place() const override { return wire_->place(); }
  std::vector<std::string> hosts() const override { return engine_->hosts(); }
  Communicator& world() override { return *world_; }

  std::unique_ptr<Communicator> group(std::vector<int> ranks, std::string name) override {
    const auto own = std::find(ranks.begin(), ranks.end(), place().rank);
    TRIREME_CHECK(own != ranks.end());
    const int rank = static_cast<int>(own - ranks.begin());
    if (ranks.size() == 1) return make_self_communicator(place().rank, std::move(name));
    const GroupState identity(ranks, rank, name);
    const int key = static_cast<int>(identity.id % (Wire::max_tag - first_rendezvous_tag + 1));
    const std::string label = fmt::format("making group {} (ranks {})", name, rank_list(ranks));
    Work rendezvous(std::make_unique<EngineWork>(*engine_, engine_->start([&] {
      return std::make_unique<Rendezvous>(*rendezvous_, label.c_str(), ranks, rank, key);
    }),
                                                 std::vector<MemoryRange>{}));
    rendezvous.wait();
    const Wire::Context context =
        engine_->with_wire([&](Wire& wire) { return wire.open_context(ranks, key); });
    return std::make_unique<GroupCommunicator>(*engine_, std::move(ranks), rank, std::move(name),
                                               context);
  }

  std::unique_ptr<OutsideGroup> outside_group(std::vector<int> ranks,
                                              const std::string& name) override {
    const auto own = std::find(ranks.begin(), ranks.end(), place().rank) - ranks.begin();
    return make_outside_group(*engine_, std::move(ranks), static_cast<int>(own), name);
  }

  SentMessages sent() const override {
    return engine_->with_wire([&](Wire&) { return wire_->sent(); });
  }

  void set_listener(OperationListener* listener) override { engine_->set_listener(listener); }

  void set_activity(ActivitySource source) override { engine_->set_activity(std::move(source)); }
  void set_last_output(LastOutput words) override { engine_->set_last_output(std::move(words)); }
  void set_before_end(std::function<void()> free) override {
    engine_->set_before_end(std::move(free));
  }

  void abort(int exit_code, const std::string& message) override {
    engine_->abort(exit_code, message);
  }

 private:
  std::unique_ptr<CountedWire> wire_;
  std::unique_ptr<ProgressEngine> engine_;
  std::unique_ptr<GroupState> rendezvous_;
  std::unique_ptr<GroupCommunicator> world_;
};

}  // namespace

std::unique_ptr<Transport> make_wire_transport(std::unique_ptr<Wire> wire,
                                               const ProgressOptions& options) {
  return std::make_unique<WireTransport>(std::move(wire), options);
}

}  // namespace trireme
