// Two buffers in memory, used alternately for reads of segments and for writes of buckets.
#include "parallel/states/parameter_store.h"

#include <algorithm>
#include <utility>

#include "base/divide.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr TransferUse use_of_parameters = {
    "the parameters",           "choose a folder on another disk", "read parameters",
    "write parameters",         "parameters from the file",        "parameters to the file",
    "parameters from the host", "parameters to the host"};

}  // namespace

ParameterStore::ParameterStore(const Stage& stage, const StateLayout& layout,
                               const OffloadOptions& where)
    : stage_(stage), layout_(layout), where_(where) {
  for (int bucket = 0; bucket < layout.buckets(); ++bucket) {
    places_.push_back(stored_bytes_);
    stored_bytes_ += room(bucket);
  }
  for (int segment = 0; segment < stage.segments(); ++segment) {
    std::int64_t bytes = 0;
    for (const int bucket : layout.buckets_of(segment)) bytes += room(bucket);
    slot_bytes_ = std::max(slot_bytes_, bytes);
  }
}

std::int64_t ParameterStore::room(int bucket) const {
  return round_up(layout_.part(bucket) * size_of(stage_.definition().compute),
                  TransferStore::alignment);
}

void ParameterStore::allocate(const MemoryRegion& region) {
  in_flight_ = MemoryBlock(stage_.device(), region.bytes, region.name);
  store_ = make_store(use_of_parameters, stage_.device(), where_, stored_bytes_);
}

void ParameterStore::settle(Slot& slot) {
  if (slot.ticket != 0) store_->wait(std::exchange(slot.ticket, 0));
}

void ParameterStore::bring(int segment) {
  Slot& slot = slot_of(segment);
  if (slot.segment == segment) return;
  settle(slot);
  slot = {.segment = segment};
  std::vector<TransferStore::Piece> pieces;
  std::byte* to = memory_of(segment);
  std::int64_t bytes = 0;
  for (const int bucket : layout_.buckets_of(segment)) {
    pieces.push_back({to + bytes, places_[static_cast<std::size_t>(bucket)], room(bucket)});
    bytes += room(bucket);
  }
  if (pieces.empty()) return;
  slot.ticket = store_->read(std::move(pieces), segment);
}

std::byte* ParameterStore::part(int segment, int bucket) {
  TRIREME_CHECK(slot_of(segment).segment == segment);
  settle(slot_of(segment));
  std::byte* at = memory_of(segment);
  for (const int other : layout_.buckets_of(segment)) {
    if (other == bucket) break;
    at += room(other);
  }
  return at;
}

std::byte* ParameterStore::begin(int bucket) {
  Slot& slot = slot_of(bucket);
  if (slot.bucket != bucket) {
    settle(slot);
    slot = {.bucket = bucket};
    stage_.device().queue().fill(memory_of(bucket), 0, room(bucket));
  }
  return memory_of(bucket);
}

void ParameterStore::keep(int bucket) {
  const std::int64_t place = places_[static_cast<std::size_t>(bucket)];
  slot_of(bucket).ticket = store_->write({{memory_of(bucket), place, room(bucket)}}, bucket);
}

void ParameterStore::finish() {
  for (Slot& slot : slots_) {
    settle(slot);
    slot = {};
  }
}

void ParameterStore::set_trace(Trace* trace) {
  if (store_) store_->set_trace(trace);
}

}  // namespace trireme
