// Pieces by key.
#include "backend/recording/record.h"

#include "base/error.h"

namespace trireme {

bool Record::begin(const WorkKey& key) {
  TRIREME_CHECK(!open_);
  RecordedPiece& piece = pieces_[key];
  rest_.work.push_back(
      {.kind = RecordedWork::Kind::piece, .name = {}, .group = {}, .op = {}, .key = key});
  if (piece.times++ > 0) return false;
  open_ = &piece;
  return true;
}

void Record::add(RecordedWork work) {
  work.op = op_;
  (open_ ? open_ : &rest_)->work.push_back(std::move(work));
}

void Record::set_flops(double flops) {
  std::vector<RecordedWork>& work = (open_ ? open_ : &rest_)->work;
  if (!work.empty()) work.back().flops = flops;
}

}  // namespace trireme
