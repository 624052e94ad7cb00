// Two slots in memory, which reads of segments and writes of buckets take in turn.
#include "parallel/parameter_file.h"

#include <algorithm>
#include <utility>

#include "base/divide.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr TransferUse use_of_parameters = {"the parameters", "choose a folder on another disk",
                                           "read parameters", "write parameters"};

}  // namespace

ParameterFile::ParameterFile(const Stage& stage, const StateLayout& layout,
                             const OffloadOptions& where)
    : stage_(stage), layout_(layout), where_(where) {
  for (int bucket = 0; bucket < layout.buckets(); ++bucket) {
    places_.push_back(file_bytes_);
    file_bytes_ += room(bucket);
  }
  for (int segment = 0; segment < stage.segments(); ++segment) {
    std::int64_t bytes = 0;
    for (const int bucket : layout.buckets_of(segment)) bytes += room(bucket);
    slot_bytes_ = std::max(slot_bytes_, bytes);
  }
}

std::int64_t ParameterFile::room(int bucket) const {
  return round_up(layout_.part(bucket) * size_of(stage_.definition().compute),
                  TransferFile::alignment);
}

void ParameterFile::allocate(const MemoryRegion& region) {
  in_flight_ = MemoryBlock(stage_.device(), region.bytes, region.name);
  if (stage_.device().computes() && file_bytes_ > 0)
    file_ = std::make_unique<TransferFile>(use_of_parameters, where_.folder, file_bytes_,
                                           where_.timeout_s);
}

void ParameterFile::settle(Slot& slot) {
  if (const TransferFile::Ticket ticket = std::exchange(slot.ticket, 0); ticket != 0)
    file_->wait(ticket);
}

void ParameterFile::bring(int segment) {
  Slot& slot = slot_of(segment);
  if (slot.segment == segment) return;
  settle(slot);
  slot = {.segment = segment};
  std::vector<TransferFile::Piece> pieces;
  std::byte* to = memory_of(segment);
  std::int64_t bytes = 0;
  for (const int bucket : layout_.buckets_of(segment)) {
    pieces.push_back({to + bytes, places_[static_cast<std::size_t>(bucket)], room(bucket)});
    bytes += room(bucket);
  }
  if (pieces.empty()) return;
  record_transfer(stage_.device(), true, "parameters from the file", bytes);
  if (file_) slot.ticket = file_->read(std::move(pieces), segment);
}

std::byte* ParameterFile::part(int segment, int bucket) {
  TRIREME_CHECK(slot_of(segment).segment == segment);
  settle(slot_of(segment));
  std::byte* at = memory_of(segment);
  for (const int other : layout_.buckets_of(segment)) {
    if (other == bucket) break;
    at += room(other);
  }
  return at;
}

std::byte* ParameterFile::begin(int bucket) {
  Slot& slot = slot_of(bucket);
  if (slot.bucket != bucket) {
    settle(slot);
    slot = {.bucket = bucket};
    stage_.device().queue().fill(memory_of(bucket), 0, room(bucket));
  }
  return memory_of(bucket);
}

void ParameterFile::keep(int bucket) {
  record_transfer(stage_.device(), false, "parameters to the file", room(bucket));
  if (!file_) return;
  const std::int64_t place = places_[static_cast<std::size_t>(bucket)];
  slot_of(bucket).ticket = file_->write({{memory_of(bucket), place, room(bucket)}}, bucket);
}

void ParameterFile::finish() {
  for (Slot& slot : slots_) {
    settle(slot);
    slot = {};
  }
}

void ParameterFile::set_trace(Trace* trace) {
  if (file_) file_->set_trace(trace);
}

}  // namespace trireme
