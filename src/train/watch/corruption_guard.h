// Detection of silent data corruption: values that several ranks must share are compared bit by
// bit. A processor that occasionally miscomputes, or memory with bit flips, raises no error but can
// ruin a run.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "data/batch.h"
#include "train/engine/engine.h"
#include "train/engine/pass_hashes.h"

namespace trireme {

// Returns the ranks whose hash differs from the majority's; all ranks if there is no majority.
std::vector<int> ranks_that_differ(std::span<const int> ranks, std::span<const std::uint64_t> all);

// Digests of one micro-batch: by its own rank and by another rank, computed twice each, and by a
// third rank, if there is one.
struct Digests {
  std::uint64_t owner[2] = {}, other[2] = {}, third = 0;
};
// Returns which of two ranks computes wrong results: one whose digests differ, otherwise one that a
// third rank contradicts, otherwise both.
std::vector<int> suspects_of(int owner, int other, const Digests& digests, bool has_third);

class CorruptionGuard {
 public:
  // All arguments must outlive the guard. Null transport: a single rank. `comparable`: other ranks
  // compute the same bits for a micro-batch; false if a library chooses the summation order.
  CorruptionGuard(Engine& engine, Device& device, Transport* transport, bool comparable)
      : engine_(engine), device_(device), transport_(transport), comparable_(comparable) {}

  // Micro-batch k of a data-parallel rank, valid until the next call.
  using Batches = std::function<const Batch*(int dp_index, std::int64_t k)>;

  struct Finding {
    std::string what;           // "": nothing
    std::vector<int> suspects;  // ranks
  };
  // Collective, with the same result on all ranks. Call between steps: the gradients of the last
  // step are lost.
  Finding compare_states();
  // Bytes that this rank hashed in the last compare_states().
  std::int64_t hashed_bytes() const { return hashed_bytes_; }
  // Recomputes each rank's micro-batches on another rank with the same weights, if there is one,
  // otherwise on the same rank.
  Finding compute_twice(const StepInput& input, const Batches& batches);

 private:
  std::vector<OpHash> hashes_of_passes(const StepInput& input, const Batches& batches, int shift);
  int partner(int rank, int shift) const;
  int shift() const;
  template <class T>
  std::vector<T> of_all(const T& own, const char* what);
  std::vector<OpHash> list_of_partner(const std::vector<OpHash>& own, int shift);

  Engine& engine_;
  Device& device_;
  Transport* transport_;
  bool comparable_;
  std::int64_t hashed_bytes_ = 0;
};

}  // namespace trireme
