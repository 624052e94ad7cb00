// Recorded pieces by key.
#include "backend/recording/record.h"

#include "base/error.h"

namespace trireme {

void Record::clear() {
  std::vector<RecordedGroup> groups = std::move(groups_);
  const std::uint32_t cleared = cleared_ + 1;
  *this = {};
  groups_ = std::move(groups);
  cleared_ = cleared;
}

bool Record::begin(const WorkKey& key) {
  TRIREME_CHECK(!open_);
  RecordedPiece& piece = pieces_[key];
  rest_.work.push_back({.kind = RecordedWork::Kind::piece, .key = key});
  if (piece.times++ > 0) return false;
  open_ = &piece;
  return true;
}

int Record::add_group(RecordedGroup group) {
  groups_.push_back(std::move(group));
  return static_cast<int>(groups_.size()) - 1;
}

void Record::add(RecordedWork work) {
  work.op = op_;
  open().push_back(work);
}

std::int32_t Record::add_operation(RecordedWork work) {
  work.operation = operations_++;
  add(work);
  return work.operation;
}

std::int32_t Record::add_message(RecordedWork message) {
  message.kind = RecordedWork::Kind::message;
  return add_operation(message);
}

void Record::add_wait(std::int32_t operation) {
  add({.kind = RecordedWork::Kind::wait, .operation = operation});
}

void Record::begin_op(const char* name) {
  op_ = name;
  op_begin_ = open().size();
}

void Record::end_op(double flops, double bytes) {
  std::vector<RecordedWork>& work = open();
  for (std::size_t i = work.size(); i-- > op_begin_;) {
    RecordedWork& launched = work[i];
    if (launched.kind != RecordedWork::Kind::kernel && launched.kind != RecordedWork::Kind::product)
      continue;
    launched.flops = flops;
    launched.bytes = bytes;
    break;
  }
  op_ = "";
}

}  // namespace trireme
