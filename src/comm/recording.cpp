// Communicators that only record operations.
#include "comm/recording.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace trireme {
namespace {

// Complete immediately, except to callers that ask whether they have to wait.
class RecordedOperation final : public Work::Pending {
 public:
  RecordedOperation(Record& record, std::int32_t operation)
      : record_(record), operation_(operation) {}
  bool done() override { return false; }
  void wait() override { record_.add_wait(operation_); }
  void detach() override {}

 private:
  Record& record_;
  std::int32_t operation_;
};

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(std::vector<int> world_ranks, int rank, std::string name, Record& record)
      : Communicator(std::move(world_ranks), rank, std::move(name)),
        record_(record),
        group_(static_cast<std::int16_t>(
            record.add_group({this->name(), this->world_ranks(), this->rank()}))) {}

  Work all_reduce(void*, std::int64_t count, DType dtype, Reduction, Label label) override {
    return add(MessageKind::all_reduce, label, all_reduce_traffic(bytes(count, dtype), size()));
  }
  Work reduce_scatter(const void*, void*, std::int64_t count, DType dtype, Reduction,
                      Label label) override {
    return add(MessageKind::reduce_scatter, label,
               scatter_traffic(bytes(count * size(), dtype), size()));
  }
  Work all_gather(const void*, void*, std::int64_t count, DType dtype, Label label) override {
    return add(MessageKind::all_gather, label,
               scatter_traffic(bytes(count * size(), dtype), size()));
  }
  Work broadcast(void*, std::int64_t count, DType dtype, int root, Label label) override {
    return add(MessageKind::broadcast, label, root == rank() ? bytes(count, dtype) : 0);
  }
  Work all_to_all(const void*, void*, std::int64_t count, DType dtype, Label label) override {
    return add(MessageKind::all_to_all, label, bytes(count * (size() - 1), dtype));
  }
  Work barrier(Label label) override { return add(MessageKind::barrier, label, 0); }
  Work exchange(std::span<const Transfer> transfers, Label label) override {
    double sent = 0;
    MessageKind kind = MessageKind::exchange;
    for (const Transfer& t : transfers) {
      const bool sends = t.direction == Transfer::Direction::send;
      if (sends) sent += bytes(t.count, t.dtype);
      if (transfers.size() == 1) kind = sends ? MessageKind::send : MessageKind::receive;
    }
    return add(kind, label, sent, transfers.empty() ? -1 : transfers.front().peer);
  }

 private:
  static double bytes(std::int64_t count, DType dtype) {
    return static_cast<double>(count * size_of(dtype));
  }
  Work add(MessageKind kind, const Label& label, double sent, int peer = -1) {
    if (size() == 1) return {};
    const std::int32_t operation = record_.add_message({.kind = RecordedWork::Kind::message,
                                                        .message = kind,
                                                        .group = group_,
                                                        .peer = peer,
                                                        .name = label.what,
                                                        .bytes = sent});
    return Work(std::make_unique<RecordedOperation>(record_, operation));
  }

  Record& record_;
  std::int16_t group_;
};

class RecordingTransport final : public Transport {
 public:
  RecordingTransport(int rank, int size, Record& record) : record_(record) {
    place_.rank = rank;
    place_.size = size;
    place_.host = "recording";
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    world_ = group(std::move(all), "world");
  }

  const Place& place() const override { return place_; }
  Communicator& world() override { return *world_; }
  std::unique_ptr<Communicator> group(std::vector<int> world_ranks, std::string name) override {
    const auto own = std::find(world_ranks.begin(), world_ranks.end(), place_.rank);
    TRIREME_CHECK(own != world_ranks.end());
    const int rank = static_cast<int>(own - world_ranks.begin());
    return std::make_unique<RecordingCommunicator>(std::move(world_ranks), rank, std::move(name),
                                                   record_);
  }
  void set_listener(OperationListener*) override {}
  void set_activity(ActivitySource) override {}
  void set_last_output(LastOutput) override {}
  void leave() override {}
  void abort(int exit_code, const std::string& message) override {
    throw Error(static_cast<ExitCode>(exit_code), message);
  }

 private:
  Place place_;
  Record& record_;
  std::unique_ptr<Communicator> world_;
};

}  // namespace

std::unique_ptr<Transport> make_recording_transport(int rank, int size, Record& record) {
  return std::make_unique<RecordingTransport>(rank, size, record);
}

}  // namespace trireme
