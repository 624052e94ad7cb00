// Optimizer states: master weights and moments that this rank owns, bucket by bucket, in memory or
// offloaded; if offloaded, a step has only a few blocks in memory at a time.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "parallel/states/state_layout.h"
#include "parallel/states/transfer_store.h"

namespace trireme {

// The kind of state array.
enum class StateArray : std::uint8_t { master, first_moment, second_moment };
inline constexpr int state_arrays = 3;

constexpr StateArray moment_array(int which) {
  return which == 0 ? StateArray::first_moment : StateArray::second_moment;
}
constexpr unsigned bit_of(StateArray array) {
  return 1U << static_cast<unsigned>(array);
}

// Types of the stored states, by array.
struct StateKinds {
  std::vector<int> moments;  // by bucket: 1 or 2
  bool masters = true;       // false: the compute copies are the masters
  DType master_dtype = DType::f32, moment_dtype = DType::f32;
  const char* first_moment_name = "first moments";

  DType dtype(StateArray array) const {
    return array == StateArray::master ? master_dtype : moment_dtype;
  }
};

class States {
 public:
  // Plans without allocating. The layout must outlive this object.
  States(const StateLayout& layout, const StateKinds& kinds, const OffloadOptions& offload);

  const MemoryPlan& memory() const { return memory_; }
  void allocate(Device& device);

  const StateKinds& kinds() const { return kinds_; }
  bool elsewhere() const { return offload_.elsewhere(); }
  // Bytes of offloaded states.
  std::int64_t stored_bytes() const { return stored_bytes_; }
  TransferStore* store() const { return store_.get(); }

  // Whether an array exists for a bucket.
  bool has(StateArray array, int bucket) const;

  // Passes visit slices in the layout's order. `arrays`: by bucket, a bit mask of the arrays used.
  // All three functions do nothing if states are in memory.
  void begin_pass(const std::vector<unsigned>& arrays, bool reads, bool writes);
  // Call before using a slice, which lies within one block: waits for its block, and continues to
  // prefetch and write back others.
  void enter(const OwnedSlice& slice);
  void end_pass();
  // Number of elements from the start of a slice that lie in the same block.
  std::int64_t left_in_block(const OwnedSlice& slice) const;

  // Address of the states of an owned slice; if offloaded, of the slice last entered.
  std::byte* at(StateArray array, const OwnedSlice& slice) const;
  // Offset of the same states in the store.
  std::int64_t place(StateArray array, const OwnedSlice& slice) const;
  // Call before accessing the store directly outside passes; waits for transfers in flight.
  void open();

 private:
  static constexpr int slots = 4;  // being written, in use, and two prefetched

  struct Block {
    int bucket;
    std::int64_t begin, count;  // in the bucket's part
  };
  struct Slot {
    TransferStore::Ticket read = 0, written = 0;
  };

  std::vector<TransferStore::Piece> pieces_of(const Block& block, int slot) const;
  void plan_store();
  void read_ahead();
  void release();

  const StateLayout& layout_;
  StateKinds kinds_;
  OffloadOptions offload_;
  std::vector<std::int64_t> begins_[state_arrays];  // by bucket, in elements; -1: none
  MemoryPlan memory_;
  MemoryBlock blocks_[state_arrays];
  Device* device_ = nullptr;

  // Elsewhere:
  std::int64_t array_begin_[state_arrays] = {}, stored_bytes_ = 0;
  std::int64_t block_elements_ = 0, array_bytes_[state_arrays] = {}, slot_bytes_ = 0;
  std::vector<Block> visited_;  // blocks with states that this rank owns
  MemoryBlock in_flight_;
  std::unique_ptr<TransferStore> store_;
  bool touched_ = false;  // by accesses outside passes
  // A pass:
  std::vector<unsigned> arrays_;  // by bucket
  std::vector<int> order_;        // of visited_
  bool reads_ = false, writes_ = false;
  int current_ = -1, next_ = 0;  // in order_
  Slot in_slots_[slots];
};

}  // namespace trireme
