// Communicators that send nothing.
#include "comm/recording.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace trireme {
namespace {

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(std::vector<int> world_ranks, int rank, std::string name, Record& record)
      : Communicator(std::move(world_ranks), rank, std::move(name)), record_(record) {}

  Work all_reduce(void*, std::int64_t count, DType dtype, Reduction, Label label) override {
    return add(label, all_reduce_traffic(bytes(count, dtype), size()));
  }
  Work reduce_scatter(const void*, void*, std::int64_t count, DType dtype, Reduction,
                      Label label) override {
    return add(label, scatter_traffic(bytes(count * size(), dtype), size()));
  }
  Work all_gather(const void*, void*, std::int64_t count, DType dtype, Label label) override {
    return add(label, scatter_traffic(bytes(count * size(), dtype), size()));
  }
  Work broadcast(void*, std::int64_t count, DType dtype, int root, Label label) override {
    return add(label, root == rank() ? bytes(count, dtype) : 0);
  }
  Work all_to_all(const void*, void*, std::int64_t count, DType dtype, Label label) override {
    return add(label, bytes(count * (size() - 1), dtype));
  }
  Work barrier(Label label) override { return add(label, 0); }
  Work exchange(std::span<const Transfer> transfers, Label label) override {
    double sent = 0;
    for (const Transfer& t : transfers)
      if (t.direction == Transfer::Direction::send) sent += bytes(t.count, t.dtype);
    return add(label, sent);
  }

 private:
  static double bytes(std::int64_t count, DType dtype) {
    return static_cast<double>(count * size_of(dtype));
  }
  Work add(const Label& label, double sent) {
    if (size() > 1) {
      record_.add({.kind = RecordedWork::Kind::message,
                   .name = label.what,
                   .group = name(),
                   .op = {},
                   .bytes = sent});
    }
    return {};
  }

  Record& record_;
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
  void set_last_words(LastWords) override {}
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
