// The guard against silent corruption: what several ranks must have in common is compared bit for
// bit. A processor that computes wrong numbers now and then, or memory that loses a bit, raises no
// error and spoils a run all the same.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "data/batch.h"
#include "train/engine.h"
#include "train/pass_hashes.h"

namespace trireme {

// The ranks of a group whose hash differs from that of most; all if no hash is that of most.
std::vector<int> ranks_that_differ(std::span<const int> ranks, std::span<const std::uint64_t> all);

// Digests of the same micro-batch: by the rank whose micro-batch it is and by another one, each
// twice; and by a third one, if there is one.
struct Digests {
  std::uint64_t owner[2] = {}, other[2] = {}, third = 0;
};
// Which of two ranks computes wrong numbers: one that contradicts itself, else one that a third
// contradicts, else perhaps either.
std::vector<int> suspects_of(int owner, int other, const Digests& digests, bool has_third);

class CorruptionGuard {
 public:
  // All outlive it. Without a transport this rank is the only one. `comparable`: other ranks get
  // the same bits for a micro-batch; they do not if a library orders their sums.
  CorruptionGuard(Engine& engine, Device& device, Transport* transport, bool comparable)
      : engine_(engine), device_(device), transport_(transport), comparable_(comparable) {}

  // Micro-batch k of a data-parallel rank, valid until the next call.
  using Batches = std::function<const Batch*(int dp_index, std::int64_t k)>;

  struct Finding {
    std::string what;           // "": nothing
    std::vector<int> suspects;  // ranks
  };
  // All ranks together, with the same result on all. Between two steps: the gradients of the last
  // one are lost.
  Finding compare_states();
  // That this rank has hashed for the last of them.
  std::int64_t hashed_bytes() const { return hashed_bytes_; }
  // Each rank computes the micro-batches of another one that has the same weights, where there is
  // one, else its own again.
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
