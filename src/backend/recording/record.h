// Recording of the work a rank enqueues; repeated work is stored once per key and counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/device.h"

namespace trireme {

// A communicator by name and members, which are world ranks in group order.
struct RecordedGroup {
  std::string name;
  std::vector<int> ranks;
  int own = 0;  // index of this rank among them
};

// The way a message moves data among the members of its group.
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

// Shape of one of the `groups` matrix products of a call: [rows, inner] x [inner, columns].
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
    load,   // from a file, or an operation from host memory
    store,  // to a file or to host memory
    message,
    wait,   // later work waits for an operation
    piece,  // a recorded piece runs here
  };

  Kind kind;
  MessageKind message = MessageKind::barrier;
  std::int16_t group = -1;  // of a message: index in Record::groups()
  // For messages, copies from or to host memory, and the waits for them; -1: none.
  std::int32_t operation = -1;
  std::int32_t peer = -1;  // of a send or receive: rank in the group
  // Literals: the name of the kernel or product, or the purpose of a message; and the op that
  // launched it, empty outside graphs.
  const char* name = "";
  const char* op = "";
  // Bytes moved by copies, host accesses and file transfers; read and written by kernels and
  // products; sent by this rank in messages.
  double bytes = 0;
  double flops = 0;
  RecordedProductShape product{};
  WorkKey key{};  // of a piece
};

// Work in the order in which it was enqueued; executed `times` times in total.
struct RecordedPiece {
  std::vector<RecordedWork> work;
  std::int64_t times = 0;
};

class Record {
 public:
  // Discards all work but keeps the groups. Operation numbers restart.
  void clear();
  // Number of calls of clear().
  std::uint32_t cleared() const { return cleared_; }

  // See Device::begin_once() and end_once().
  bool begin(const WorkKey& key);
  void end() { open_ = nullptr; }

  int add_group(RecordedGroup group);
  void add(RecordedWork work);
  // Adds an asynchronous operation and returns its number, which its waits refer to.
  std::int32_t add_operation(RecordedWork work);
  std::int32_t add_message(RecordedWork message);
  void add_wait(std::int32_t operation);

  // Attributes the work added until end_op() to this op.
  void begin_op(const char* name);
  // Assigns the op's cost to the last kernel or product that it launched.
  void end_op(double flops, double bytes);

  // Pieces by key, and the rest in order, with a reference wherever a piece runs.
  const std::map<WorkKey, RecordedPiece>& pieces() const { return pieces_; }
  const RecordedPiece& rest() const { return rest_; }
  const std::vector<RecordedGroup>& groups() const { return groups_; }
  const RecordedGroup& group_of(const RecordedWork& message) const {
    return groups_[static_cast<std::size_t>(message.group)];
  }
  std::int32_t operations() const { return operations_; }

  // Calls use(work, times) for all work except waits.
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
  std::size_t op_begin_ = 0;  // index in the open work
};

}  // namespace trireme
