// Copies on dedicated queues, ordered by events only: the host never blocks.
#include "parallel/states/host_store.h"

namespace trireme {

HostStore::HostStore(const TransferUse& use, Device& device, std::int64_t bytes)
    : device_(device), memory_(device, bytes, use.what) {
  device.queue(QueueRole::load);  // created now, not in the middle of a step
}

void HostStore::follow(Queue& queue) {
  Event now;
  device_.queue().record(now);
  queue.wait(now);
}

TransferStore::Ticket HostStore::end(Queue& queue, Event& last) {
  queue.record(last);
  open_[next_] = last;
  return next_++;
}

TransferStore::Ticket HostStore::read(std::vector<Piece> pieces, std::int64_t) {
  Queue& queue = device_.queue(QueueRole::load);
  follow(queue);
  queue.wait(written_);  // the range to read may still be in transfer to the store
  for (const Piece& piece : pieces)
    queue.copy(piece.memory, memory_.data() + piece.offset, piece.bytes);
  return end(queue, read_);
}

TransferStore::Ticket HostStore::write(std::vector<Piece> pieces, std::int64_t) {
  Queue& queue = device_.queue(QueueRole::store);
  follow(queue);
  for (const Piece& piece : pieces)
    queue.copy(memory_.data() + piece.offset, piece.memory, piece.bytes);
  return end(queue, written_);
}

void HostStore::wait(Ticket ticket) {
  const auto found = open_.find(ticket);
  if (found == open_.end()) return;
  device_.queue().wait(found->second);
  open_.erase(found);
}

void HostStore::wait_for_all() {
  device_.queue().wait(read_);
  device_.queue().wait(written_);
  open_.clear();
}

void HostStore::finish() {
  wait_for_all();
  device_.queue(QueueRole::load).synchronize();
  device_.queue(QueueRole::store).synchronize();
}

void HostStore::read_now(std::int64_t offset, std::int64_t,
                         const std::function<void(const std::byte* host)>& use) const {
  use(memory_.data() + offset);
}

void HostStore::write_now(std::int64_t offset, std::int64_t,
                          const std::function<void(std::byte* host)>& fill) {
  fill(memory_.data() + offset);
}

}  // namespace trireme
