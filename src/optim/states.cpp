// Layout of states in memory, and their transfer to and from a store in blocks.
#include "optim/states.h"

#include <algorithm>
#include <utility>

#include "base/divide.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr StateArray all_arrays[] = {StateArray::master, StateArray::first_moment,
                                     StateArray::second_moment};
// Maximum block size: at least a megabyte of each array, enough for the full bandwidth of a disk or
// a link.
constexpr std::int64_t most_elements = 1 << 20;
// Number of 2-byte elements per transfer alignment unit.
constexpr std::int64_t unit = TransferStore::alignment / 2;
// Blocks begin at possible rank boundaries: data that ranks never split lies in a single block.
static_assert(unit % (4 * ShardOptions{}.grain) == 0 && most_elements % unit == 0);

constexpr TransferUse use_of_states = {"the optimizer's states",
                                       "choose a folder on another disk",
                                       "read states",
                                       "write states",
                                       "states from the file",
                                       "states to the file",
                                       "states from the host",
                                       "states to the host"};

constexpr int index_of(StateArray array) {
  return static_cast<int>(array);
}

}  // namespace

States::States(const StateLayout& layout, const StateKinds& kinds, const OffloadOptions& offload)
    : layout_(layout), kinds_(kinds), offload_(offload) {
  TRIREME_CHECK(static_cast<int>(kinds.moments.size()) == layout.buckets());
  const char* const names[state_arrays] = {"master weights", kinds.first_moment_name,
                                           "second moments"};
  for (const StateArray array : all_arrays) {
    const int a = index_of(array);
    std::int64_t elements = 0;
    for (int bucket = 0; bucket < layout.buckets(); ++bucket) {
      const bool kept = array == StateArray::master ? kinds.masters : kinds.moments[bucket] >= a;
      begins_[a].push_back(kept ? elements : -1);
      const std::int64_t part = layout.part(bucket);
      if (kept) elements += elsewhere() ? round_up(part, unit) : part;
    }
    const std::int64_t bytes = elements * size_of(kinds.dtype(array));
    memory_.add(names[a], elsewhere() ? 0 : bytes);
    if (!elsewhere()) continue;
    array_begin_[a] = stored_bytes_;
    stored_bytes_ += bytes;
  }
  if (elsewhere()) plan_store();
}

void States::plan_store() {
  std::int64_t largest = 0;
  for (int bucket = 0; bucket < layout_.buckets(); ++bucket)
    largest = std::max(largest, layout_.part(bucket));
  block_elements_ = std::min(most_elements, round_up(largest, unit));
  for (const StateArray array : all_arrays) {
    const auto& begins = begins_[index_of(array)];
    const bool any =
        std::any_of(begins.begin(), begins.end(), [](auto begin) { return begin >= 0; });
    array_bytes_[index_of(array)] = any ? block_elements_ * size_of(kinds_.dtype(array)) : 0;
    slot_bytes_ += array_bytes_[index_of(array)];
  }
  memory_.add("states in flight", slots * slot_bytes_);
  for (OwnedSlice slice : layout_.owned()) {
    while (slice.count() > 0) {
      const std::int64_t begin = slice.offset / block_elements_ * block_elements_;
      if (visited_.empty() || visited_.back().bucket != slice.bucket ||
          visited_.back().begin != begin) {
        const std::int64_t rest = layout_.part(slice.bucket) - begin;
        visited_.push_back({slice.bucket, begin, std::min(block_elements_, rest)});
      }
      const std::int64_t taken = std::min(slice.count(), left_in_block(slice));
      slice.begin += taken;
      slice.offset += taken;
    }
  }
}

void States::allocate(Device& device) {
  device_ = &device;
  for (int a = 0; a < state_arrays; ++a)
    blocks_[a] = MemoryBlock(device, memory_.regions[a].bytes, memory_.regions[a].name);
  if (!elsewhere()) return;
  const MemoryRegion& flight = memory_.regions[state_arrays];
  in_flight_ = MemoryBlock(device, flight.bytes, flight.name);
  store_ = make_store(use_of_states, device, offload_, stored_bytes_);
}

bool States::has(StateArray array, int bucket) const {
  return begins_[index_of(array)][bucket] >= 0;
}

std::int64_t States::left_in_block(const OwnedSlice& slice) const {
  if (!elsewhere()) return std::numeric_limits<std::int64_t>::max();
  return block_elements_ - slice.offset % block_elements_;
}

std::byte* States::at(StateArray array, const OwnedSlice& slice) const {
  const int a = index_of(array);
  TRIREME_CHECK(has(array, slice.bucket));
  const std::int64_t size = size_of(kinds_.dtype(array));
  if (!elsewhere()) return blocks_[a].data() + (begins_[a][slice.bucket] + slice.offset) * size;
  TRIREME_CHECK(current_ >= 0);
  const Block& block = visited_[order_[current_]];
  TRIREME_CHECK(block.bucket == slice.bucket && slice.offset >= block.begin &&
                slice.offset + slice.count() <= block.begin + block.count);
  std::byte* slot = in_flight_.data() + (current_ % slots) * slot_bytes_;
  for (int before = 0; before < a; ++before) slot += array_bytes_[before];
  return slot + (slice.offset - block.begin) * size;
}

std::int64_t States::place(StateArray array, const OwnedSlice& slice) const {
  const int a = index_of(array);
  TRIREME_CHECK(has(array, slice.bucket));
  return array_begin_[a] + (begins_[a][slice.bucket] + slice.offset) * size_of(kinds_.dtype(array));
}

std::vector<TransferStore::Piece> States::pieces_of(const Block& block, int slot) const {
  std::vector<TransferStore::Piece> pieces;
  std::byte* memory = in_flight_.data() + slot * slot_bytes_;
  for (const StateArray array : all_arrays) {
    const int a = index_of(array);
    const OwnedSlice first{-1, 0, 0, block.bucket, block.begin};
    if ((arrays_[static_cast<std::size_t>(block.bucket)] & bit_of(array)) != 0) {
      const std::int64_t bytes = round_up(block.count, unit) * size_of(kinds_.dtype(array));
      pieces.push_back({memory, place(array, first), bytes});
    }
    memory += array_bytes_[a];
  }
  return pieces;
}

void States::begin_pass(const std::vector<unsigned>& arrays, bool reads, bool writes) {
  if (!elsewhere()) return;
  TRIREME_CHECK(current_ < 0 && device_);
  if (store_) {
    store_->wait_for_all();
    if (std::exchange(touched_, false)) store_->settle();
  }
  arrays_ = arrays;
  order_.clear();
  for (int i = 0; i < static_cast<int>(visited_.size()); ++i)
    if (arrays_[static_cast<std::size_t>(visited_[i].bucket)] != 0) order_.push_back(i);
  reads_ = reads;
  writes_ = writes;
  next_ = 0;
  std::fill(std::begin(in_slots_), std::end(in_slots_), Slot{});
  read_ahead();
}

// Prefetches into free slots, except the slot of the block before the current one, which is still
// being written.
void States::read_ahead() {
  const int last = std::min(static_cast<int>(order_.size()), std::max(current_, 0) + slots - 1);
  for (; next_ < last; ++next_) {
    Slot& slot = in_slots_[next_ % slots];
    if (slot.written != 0) store_->wait(std::exchange(slot.written, 0));
    const Block& block = visited_[order_[next_]];
    if (reads_) slot.read = store_->read(pieces_of(block, next_ % slots), order_[next_]);
  }
}

void States::release() {
  if (current_ < 0 || !writes_) return;
  const Block& block = visited_[order_[current_]];
  in_slots_[current_ % slots].written =
      store_->write(pieces_of(block, current_ % slots), order_[current_]);
}

void States::enter(const OwnedSlice& slice) {
  if (!elsewhere() || arrays_[static_cast<std::size_t>(slice.bucket)] == 0) return;
  const auto holds = [&](int at) {
    const Block& block = visited_[order_[at]];
    return block.bucket == slice.bucket && slice.offset >= block.begin &&
           slice.offset < block.begin + block.count;
  };
  if (current_ >= 0 && holds(current_)) return;
  release();
  ++current_;
  TRIREME_CHECK(current_ < static_cast<int>(order_.size()) && holds(current_));
  read_ahead();
  Slot& slot = in_slots_[current_ % slots];
  if (slot.read != 0) store_->wait(std::exchange(slot.read, 0));
  if (!reads_) {
    device_->queue().fill(in_flight_.data() + (current_ % slots) * slot_bytes_, 0, slot_bytes_);
  }
}

void States::end_pass() {
  if (!elsewhere()) return;
  release();
  current_ = -1;
}

void States::open() {
  if (store_) store_->finish();
  touched_ = true;
}

}  // namespace trireme
