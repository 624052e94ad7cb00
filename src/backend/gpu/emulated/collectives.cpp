// Collectives as messages between all ranks, in stream order.
#include "backend/gpu/emulated/collectives.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/gpu/emulated/block.h"
#include "backend/gpu/emulated/fault.h"
#include "backend/gpu/emulated/memory.h"
#include "backend/gpu/emulated/race.h"
#include "backend/gpu/queue.h"

namespace trireme::gpu::emulated {
namespace {

constexpr int failed = 1, misused = 2;

using Bytes = std::vector<std::byte>;

// One rank's view of a group.
struct Member {
  int size, rank;
  HostMessages* messages;
  std::atomic<int> error{0};
  std::atomic<bool> aborted{false};
};
using Handle = std::shared_ptr<Member>;

Member& member_of(void* communicator) {
  return **static_cast<Handle*>(communicator);
}

// --- device memory, accessed by this stream as far as the race checker is concerned ---

void check_device(const void* p, std::int64_t bytes) {
  if (side_of(p, static_cast<std::size_t>(bytes)) != Side::device)
    stop("a collective on memory that is not the device's");
}

Bytes taken_from(const void* src, std::int64_t bytes) {
  note_read(src, static_cast<std::size_t>(bytes));
  const Bookkeeping bookkeeping;
  const auto* const from = static_cast<const std::byte*>(src);
  return {from, from + bytes};
}

void put_into(void* dst, const void* src, std::int64_t bytes) {
  note_write(dst, static_cast<std::size_t>(bytes));
  const Bookkeeping bookkeeping;
  std::memcpy(dst, src, static_cast<std::size_t>(bytes));
}

// --- one call ---

struct Sent {
  int peer;
  const void* data;
  std::int64_t bytes;
};
struct Received {
  int peer;
  std::int64_t bytes;
};

// Sends and receives of a call, and what it does with them; by[k] came from rank k.
struct Call {
  std::vector<Sent> sends;
  std::vector<Received> receives;
  std::function<void(const std::vector<const Bytes*>& by)> deliver;
};

// A group of calls that start together, in progress in a stream.
class Flight {
 public:
  Flight(Handle member, std::vector<Call> calls)
      : member_(std::move(member)), calls_(std::move(calls)) {}

  // Runs in the stream.
  void take() {
    if (member_->aborted) return;
    for (const Call& call : calls_) {
      for (const Sent& sent : call.sends) {
        sent_.push_back(std::make_unique<Bytes>(taken_from(sent.data, sent.bytes)));
        messages_.push_back({true, sent.peer, sent_.back()->data(), sent.bytes});
      }
      for (const Received& received : call.receives) {
        received_.push_back(std::make_unique<Bytes>(static_cast<std::size_t>(received.bytes)));
        messages_.push_back({false, received.peer, received_.back()->data(), received.bytes});
      }
    }
  }

  // Runs on the host while the stream stalls.
  bool has_arrived() {
    if (member_->aborted) return true;
    if (member_->error) return false;
    try {
      if (!transfer_) transfer_ = member_->messages->start(messages_);
      if (!transfer_->done()) return false;
    } catch (const std::exception&) {
      member_->error = failed;
      return false;
    }
    release(this);
    return true;
  }

  // Runs in the stream.
  void deliver() {
    acquire(this);
    if (member_->aborted) return;
    auto next = received_.begin();
    for (const Call& call : calls_) {
      std::vector<const Bytes*> by(static_cast<std::size_t>(member_->size));
      for (const Received& received : call.receives)
        by[static_cast<std::size_t>(received.peer)] = (next++)->get();
      if (call.deliver) call.deliver(by);
    }
  }

  bool under_way() const { return transfer_ && !transfer_->done(); }

 private:
  Handle member_;
  std::vector<Call> calls_;
  std::vector<std::unique_ptr<Bytes>> sent_, received_;
  std::vector<HostMessages::Message> messages_;
  std::unique_ptr<HostMessages::Transfer> transfer_;
};

// Leaks aborted flights, which the network may still write to.
void let_go(Flight* flight) {
  if (!flight->under_way()) delete flight;
}

void fly(Stream* stream, const Handle& member, std::vector<Call> calls) {
  const Bookkeeping bookkeeping;
  const std::shared_ptr<Flight> flight(new Flight(member, std::move(calls)), let_go);
  enqueue(stream, [flight] { flight->take(); });
  enqueue_when(
      stream, [flight] { return flight->has_arrived(); }, [flight] { flight->deliver(); });
}

// --- groups of calls ---

struct Group {
  int depth = 0;
  Stream* stream = nullptr;
  Handle member;
  std::vector<Call> calls;
};
thread_local Group group;

int add(void* communicator, Queue& queue, Call call) {
  const Handle& member = *static_cast<Handle*>(communicator);
  Stream* const stream = stream_of(queue);
  if (group.depth == 0) {
    fly(stream, member, {std::move(call)});
    return 0;
  }
  if (!group.calls.empty() && (group.stream != stream || group.member != member)) return misused;
  group.stream = stream;
  group.member = member;
  group.calls.push_back(std::move(call));
  return 0;
}

int group_start() {
  ++group.depth;
  return 0;
}

int group_end() {
  if (group.depth == 0) return misused;
  if (--group.depth > 0 || group.calls.empty()) return 0;
  fly(group.stream, group.member, std::exchange(group.calls, {}));
  group.member.reset();
  return 0;
}

// --- ring-ordered sums ---

// The sum of part p starts at rank p + 1 and ends at rank p, with rounding at every rank.
template <class T>
void reduce_along_ring(T* sums, const std::vector<const T*>& by, int part, std::int64_t begin,
                       std::int64_t end, bool maximum) {
  using Wide = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
  const int ranks = static_cast<int>(by.size());
  for (std::int64_t i = begin; i < end; ++i) {
    auto value = static_cast<Wide>(by[static_cast<std::size_t>((part + 1) % ranks)][i]);
    for (int step = 2; step <= ranks; ++step) {
      const auto next = static_cast<Wide>(by[static_cast<std::size_t>((part + step) % ranks)][i]);
      const Wide reduced = !maximum ? value + next : value < next ? next : value;
      value = static_cast<Wide>(static_cast<T>(reduced));
    }
    sums[i] = static_cast<T>(value);
  }
}

template <class Body>
void with_type(DType dtype, const Body& body) {
  if (dtype == DType::i64) return body(std::int64_t{});
  if (dtype == DType::i32) return body(std::int32_t{});
  if (dtype == DType::u8) return body(std::uint8_t{});
  if (dtype == DType::u16) stop("NCCL has no 16-bit integers");
  with_compute_type(dtype, body);
}

// Reduces count elements of every rank; part < 0: one part per rank, else everything as that part.
Bytes reduced(const std::vector<const Bytes*>& by, std::int64_t count, DType dtype, bool maximum,
              int part) {
  const Bookkeeping bookkeeping;
  Bytes sums(static_cast<std::size_t>(count * size_of(dtype)));
  with_type(dtype, [&]<class T>(T) {
    std::vector<const T*> typed;
    for (const Bytes* one : by) typed.push_back(reinterpret_cast<const T*>(one->data()));
    auto* const to = reinterpret_cast<T*>(sums.data());
    const int ranks = static_cast<int>(by.size());
    if (part >= 0) return reduce_along_ring(to, typed, part, 0, count, maximum);
    const std::int64_t longest = (count + ranks - 1) / ranks;
    for (int k = 0; k < ranks; ++k)
      reduce_along_ring(to, typed, k, std::min(count, k * longest),
                        std::min(count, (k + 1) * longest), maximum);
  });
  return sums;
}

template <class Body>
void for_peers(const Member& member, const Body& body) {
  for (int step = 1; step < member.size; ++step) body((member.rank + step) % member.size);
}

const std::byte* at(const void* p, std::int64_t bytes) {
  return static_cast<const std::byte*>(p) + bytes;
}
std::byte* at(void* p, std::int64_t bytes) {
  return static_cast<std::byte*>(p) + bytes;
}

int all_reduce(void* data, std::int64_t count, DType dtype, bool maximum, void* communicator,
               Queue& queue) {
  const Member& member = member_of(communicator);
  const std::int64_t bytes = count * size_of(dtype);
  check_device(data, bytes);
  Call call;
  for_peers(member, [&](int k) {
    call.sends.push_back({k, data, bytes});
    call.receives.push_back({k, bytes});
  });
  call.deliver = [=, rank = member.rank](std::vector<const Bytes*> by) {
    const Bytes own = taken_from(data, bytes);
    by[static_cast<std::size_t>(rank)] = &own;
    put_into(data, reduced(by, count, dtype, maximum, -1).data(), bytes);
  };
  return add(communicator, queue, std::move(call));
}

int reduce_scatter(const void* src, void* dst, std::int64_t count, DType dtype, bool maximum,
                   void* communicator, Queue& queue) {
  const Member& member = member_of(communicator);
  const std::int64_t bytes = count * size_of(dtype);
  check_device(src, bytes * member.size);
  check_device(dst, bytes);
  Call call;
  for_peers(member, [&](int k) {
    call.sends.push_back({k, at(src, k * bytes), bytes});
    call.receives.push_back({k, bytes});
  });
  call.deliver = [=, rank = member.rank](std::vector<const Bytes*> by) {
    const Bytes own = taken_from(at(src, rank * bytes), bytes);
    by[static_cast<std::size_t>(rank)] = &own;
    put_into(dst, reduced(by, count, dtype, maximum, rank).data(), bytes);
  };
  return add(communicator, queue, std::move(call));
}

int all_gather(const void* src, void* dst, std::int64_t count, DType dtype, void* communicator,
               Queue& queue) {
  const Member& member = member_of(communicator);
  const std::int64_t bytes = count * size_of(dtype);
  check_device(src, bytes);
  check_device(dst, bytes * member.size);
  Call call;
  for_peers(member, [&](int k) {
    call.sends.push_back({k, src, bytes});
    call.receives.push_back({k, bytes});
  });
  call.deliver = [=, rank = member.rank](const std::vector<const Bytes*>& by) {
    void* const mine = at(dst, rank * bytes);
    if (src != mine) put_into(mine, taken_from(src, bytes).data(), bytes);
    for (std::size_t k = 0; k < by.size(); ++k)
      if (by[k]) put_into(at(dst, static_cast<std::int64_t>(k) * bytes), by[k]->data(), bytes);
  };
  return add(communicator, queue, std::move(call));
}

int send(const void* data, std::int64_t count, DType dtype, int peer, void* communicator,
         Queue& queue) {
  const std::int64_t bytes = count * size_of(dtype);
  check_device(data, bytes);
  Call call;
  call.sends.push_back({peer, data, bytes});
  return add(communicator, queue, std::move(call));
}

int receive(void* data, std::int64_t count, DType dtype, int peer, void* communicator,
            Queue& queue) {
  const std::int64_t bytes = count * size_of(dtype);
  check_device(data, bytes);
  Call call;
  call.receives.push_back({peer, bytes});
  call.deliver = [=](const std::vector<const Bytes*>& by) {
    put_into(data, by[static_cast<std::size_t>(peer)]->data(), bytes);
  };
  return add(communicator, queue, std::move(call));
}

int broadcast(void* data, std::int64_t count, DType dtype, int root, void* communicator,
              Queue& queue) {
  const Member& member = member_of(communicator);
  if (member.rank != root) return receive(data, count, dtype, root, communicator, queue);
  const std::int64_t bytes = count * size_of(dtype);
  check_device(data, bytes);
  Call call;
  for_peers(member, [&](int k) { call.sends.push_back({k, data, bytes}); });
  return add(communicator, queue, std::move(call));
}

// --- communicators: while one exists, streams advance by themselves ---

std::mutex drive_mutex;
int members = 0;
std::unique_ptr<Drive> drive;

void count_members(int change) {
  const std::lock_guard lock(drive_mutex);
  members += change;
  if (members > 0 && !drive) drive = std::make_unique<Drive>();
  if (members == 0) drive.reset();
}

int make_id(CollectiveId* id) {
  *id = {};
  return 0;
}

int join(void** communicator, int size, const CollectiveId&, int rank, HostMessages* messages) {
  if (!messages) return misused;
  if (planted(Fault::stuck_joining)) {
    if (rank == size - 1) raise(SIGSTOP);
    for (;;) pause();  // no rank returns before all have called
  }
  auto member = std::make_shared<Member>();
  member->size = size;
  member->rank = rank;
  member->messages = messages;
  *communicator = new Handle(std::move(member));
  count_members(1);
  return 0;
}

int destroy(void* communicator) {
  count_members(-1);
  delete static_cast<Handle*>(communicator);
  return 0;
}

int abort(void* communicator) {
  member_of(communicator).aborted = true;
  return destroy(communicator);
}

int async_error(void* communicator) {
  return member_of(communicator).error;
}

std::string name() {
  return "a substitute for NCCL";
}

std::string error_text(int error) {
  return error == failed ? "a message between hosts failed" : "calls that do not belong together";
}

}  // namespace

const CollectiveTable& substitute_collectives() {
  static constexpr CollectiveTable table{.name = name,
                                         .error_text = error_text,
                                         .make_id = make_id,
                                         .join = join,
                                         .destroy = destroy,
                                         .abort = abort,
                                         .async_error = async_error,
                                         .group_start = group_start,
                                         .group_end = group_end,
                                         .all_reduce = all_reduce,
                                         .reduce_scatter = reduce_scatter,
                                         .all_gather = all_gather,
                                         .broadcast = broadcast,
                                         .send = send,
                                         .receive = receive};
  return table;
}

}  // namespace trireme::gpu::emulated
