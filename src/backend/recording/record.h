// Recording of the work a rank enqueues; repeated work is stored once per key and counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/device.h"

namespace trireme {

// A communicator, by name and members: world ranks in the group's order.
struct RecordedGroup {
  std::string name;
  std::vector<int> ranks;
  int own = 0;  // this rank among them
};

// How a message moves data among the members of its group.
enum class MessageKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  barrier,
  send,
  receive,
  exchange,  // sends and receives at once
};

// One of a product of `groups` matrices: [rows, inner] x [inner, columns].
struct RecordedProductShape {
  std::int64_t rows = 0, columns = 0, inner = 0;
  std::int32_t groups = 1;
};

struct RecordedWork {
  enum class Kind : std::uint8_t {
    kernel,
    product,
    copy,
    fill,
    write,
    read,
    load,   // from a file, or as an operation from the host's memory
    store,  // to it
    message,
    wait,   // what follows waits for an operation
    piece,  // all of it happens here
  };

  Kind kind;
  MessageKind message = MessageKind::barrier;
  std::int16_t group = -1;  // of a message: its number in Record::groups()
  // Of a message or of a copy from or to the host's memory, and of the waits for it; -1: none.
  std::int32_t operation = -1;
  std::int32_t peer = -1;  // of a send or a receive, in the group
  // Literals: of the kernel, the product, or what a message is for; and the op that launched it,
  // empty outside of graphs.
  const char* name = "";
  const char* op = "";
  // Moved by copies, by accesses of the host, from and to files; read and written by kernels and
  // products; sent by messages, by this rank.
  double bytes = 0;
  double flops = 0;
  RecordedProductShape product{};
  WorkKey key{};  // of a piece
};

// Work in the order in which it was enqueued, `times` times in all.
struct RecordedPiece {
  std::vector<RecordedWork> work;
  std::int64_t times = 0;
};

class Record {
 public:
  // Forgets all work, and keeps the groups. Numbers of operations restart.
  void clear();
  // How often that was done.
  std::uint32_t cleared() const { return cleared_; }

  // As Device::begin_once() and end_once().
  bool begin(const WorkKey& key);
  void end() { open_ = nullptr; }

  int add_group(RecordedGroup group);
  void add(RecordedWork work);
  // Adds an operation that runs by itself, and returns its number, which waits for it name.
  std::int32_t add_operation(RecordedWork work);
  std::int32_t add_message(RecordedWork message);
  void add_wait(std::int32_t operation);

  // The work that is added until end_op() belongs to this op.
  void begin_op(const char* name);
  // What the op costs, put down to the last kernel or product that it launched.
  void end_op(double flops, double bytes);

  // Pieces by key, and all else in its order, with a reference where each piece happens.
  const std::map<WorkKey, RecordedPiece>& pieces() const { return pieces_; }
  const RecordedPiece& rest() const { return rest_; }
  const std::vector<RecordedGroup>& groups() const { return groups_; }
  const RecordedGroup& group_of(const RecordedWork& message) const {
    return groups_[static_cast<std::size_t>(message.group)];
  }
  std::int32_t operations() const { return operations_; }

  // Calls use(work, times) for everything but waits.
  template <class Use>
  void for_each(const Use& use) const {
    const auto each = [&](const RecordedPiece& piece) {
      for (const RecordedWork& work : piece.work) {
        if (work.kind != RecordedWork::Kind::piece && work.kind != RecordedWork::Kind::wait)
          use(work, piece.times);
      }
    };
    for (const auto& [key, piece] : pieces_) each(piece);
    each(rest_);
  }

 private:
  std::vector<RecordedWork>& open() { return (open_ ? open_ : &rest_)->work; }

  std::vector<RecordedGroup> groups_;
  std::map<WorkKey, RecordedPiece> pieces_;
  RecordedPiece rest_{.work = {}, .times = 1};
  RecordedPiece* open_ = nullptr;
  std::int32_t operations_ = 0;
  std::uint32_t cleared_ = 0;
  const char* op_ = "";
  std::size_t op_begin_ = 0;  // among the open work
};

}  // namespace trireme
