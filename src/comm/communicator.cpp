// Base of all communicators, and the group of one.
#include "comm/communicator.h"

#include <cstring>

#include "base/error.h"

namespace trireme {

std::string Label::text() const {
  return index < 0 ? std::string(what) : fmt::format("{} {}", what, index);
}

void Work::settle() noexcept {
  if (pending_ && !pending_->done()) pending_->detach();
}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    settle();
    pending_ = std::move(other.pending_);
  }
  return *this;
}

bool Work::done() {
  if (pending_ && pending_->done()) pending_.reset();
  return !pending_;
}

void Work::wait() {
  if (!pending_) return;
  pending_->wait();
  pending_.reset();
}

Communicator::Communicator(std::vector<int> world_ranks, int rank, std::string name)
    : world_ranks_(std::move(world_ranks)), rank_(rank), name_(std::move(name)) {
  TRIREME_CHECK(rank_ >= 0 && rank_ < size());
}

Work Communicator::send(const void* data, std::int64_t count, DType dtype, int peer, Label label) {
  // A send only reads its data, so the cast is safe.
  const Transfer transfer{Transfer::Direction::send, peer, const_cast<void*>(data), count, dtype};
  return exchange({&transfer, 1}, label);
}

Work Communicator::receive(void* data, std::int64_t count, DType dtype, int peer, Label label) {
  const Transfer transfer{Transfer::Direction::receive, peer, data, count, dtype};
  return exchange({&transfer, 1}, label);
}

namespace {

class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator(int world_rank, std::string name, bool copies)
      : Communicator({world_rank}, 0, std::move(name)), copies_(copies) {}

  Work all_reduce(void*, std::int64_t, DType, Reduction, Label) override { return {}; }
  Work reduce_scatter(const void* src, void* dst, std::int64_t count, DType dtype, Reduction,
                      Label) override {
    return copy(src, dst, count, dtype);
  }
  Work all_gather(const void* src, void* dst, std::int64_t count, DType dtype, Label) override {
    return copy(src, dst, count, dtype);
  }
  Work broadcast(void*, std::int64_t, DType, int root, Label) override {
    TRIREME_CHECK(root == 0);
    return {};
  }
  Work all_to_all(const void* src, void* dst, std::int64_t count, DType dtype, Label) override {
    return copy(src, dst, count, dtype);
  }
  Work barrier(Label) override { return {}; }
  Work exchange(std::span<const Transfer> transfers, Label) override {
    TRIREME_CHECK(transfers.empty());  // there is no other rank
    return {};
  }

 private:
  Work copy(const void* src, void* dst, std::int64_t count, DType dtype) const {
    if (copies_ && src != dst && count > 0) std::memcpy(dst, src, count * size_of(dtype));
    return {};
  }

  const bool copies_;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator(int world_rank, std::string name,
                                                     bool copies) {
  return std::make_unique<SelfCommunicator>(world_rank, std::move(name), copies);
}

}  // namespace trireme
