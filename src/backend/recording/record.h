// What a rank was told to do: work that is enqueued over and over under one key is written down
// once and counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/device.h"

namespace trireme {

struct RecordedWork {
  enum class Kind : std::uint8_t { kernel, product, copy, fill, write, read, message, piece };

  Kind kind;
  std::string name;   // of the kernel, the product, or what a message is for
  std::string group;  // of a message: its communicator
  std::string op;     // that launched it; empty outside of graphs
  double bytes = 0;   // moved by copies and by accesses of the host; sent by messages
  double flops = 0;
  WorkKey key{};  // of a piece: all of it happens here
};

// Work in the order in which it was enqueued, `times` times in all.
struct RecordedPiece {
  std::vector<RecordedWork> work;
  std::int64_t times = 0;
};

class Record {
 public:
  // As Device::begin_once() and end_once().
  bool begin(const WorkKey& key);
  void end() { open_ = nullptr; }

  void add(RecordedWork work);
  // The work that is added until the next call belongs to this op, or, empty, to none.
  void set_op(std::string name) { op_ = std::move(name); }
  // Of the work that was added last.
  void set_flops(double flops);

  // Pieces by key, and all else in its order, with a reference where each piece happens.
  const std::map<WorkKey, RecordedPiece>& pieces() const { return pieces_; }
  const RecordedPiece& rest() const { return rest_; }

  // Calls use(work, times) for everything.
  template <class Use>
  void for_each(const Use& use) const {
    for (const auto& [key, piece] : pieces_)
      for (const RecordedWork& work : piece.work) use(work, piece.times);
    for (const RecordedWork& work : rest_.work)
      if (work.kind != RecordedWork::Kind::piece) use(work, rest_.times);
  }

 private:
  std::map<WorkKey, RecordedPiece> pieces_;
  RecordedPiece rest_{.work = {}, .times = 1};
  RecordedPiece* open_ = nullptr;
  std::string op_;
};

}  // namespace trireme
