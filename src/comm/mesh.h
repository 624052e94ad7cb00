// The device mesh: all arithmetic between world ranks and their coordinates in tensor, context,
// data, expert and pipeline parallelism. No other code computes ranks from degrees.
//
// Rank order, from the closest neighbors outward: tp innermost, then cp, then data parallelism
// (dp_shard inside dp_replicate), pp outermost:
//
//   rank = (((pp * dp_replicate + replicate) * dp_shard + shard) * cp + c) * tp + t
//
// Expert parallelism reuses these ranks: an expert group is ep x expert_tp consecutive ranks among
// those that differ along tp, cp and dp_shard, slices of an expert innermost. Replicated
// KV heads are shared by `kv_copies` consecutive members of a tp group.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct MeshDegrees {
  int tp = 1;
  int cp = 1;
  int ep = 1;            // ranks, or groups of expert_tp ranks, with different experts
  int expert_tp = 1;     // tensor parallelism within an expert
  int dp_shard = 1;      // ranks that shard one copy of the states
  int dp_replicate = 1;  // copies of such a group
  int pp = 1;
  int kv_copies = 1;     // divides tp
  bool experts = false;  // the model has experts

  // True if the ranks that share experts' gradients and states are not those that share all others.
  bool experts_apart() const { return experts && (expert_ranks() > 1 || tp > 1); }
  // Number of ranks that together hold a layer's experts; divides tp * cp * dp_shard.
  int expert_ranks() const { return ep * expert_tp; }

  int dp() const { return dp_shard * dp_replicate; }
};

// Degrees for `ranks` processes with given tp, cp, ep, pp and dp_replicate; dp_shard is the rest.
// Rejects values that do not divide (exit code 2) and proposes the nearest ones that do.
MeshDegrees fit_degrees(int ranks, const MeshDegrees& chosen);

// Coordinates of a rank along each axis.
struct MeshPlace {
  int tp = 0;
  int cp = 0;
  int shard = 0;
  int replicate = 0;
  int pp = 0;

  bool operator==(const MeshPlace&) const = default;
};

// Axes of the mesh, to be combined with |.
enum class Axes : unsigned {
  none = 0,
  tp = 1,
  cp = 2,
  dp_shard = 4,
  dp_replicate = 8,
  pp = 16,
  dp = dp_shard | dp_replicate,  // ranks that process different samples
  dp_cp = dp | cp,               // ranks with the same parameters, which reduce gradients
  shard_cp = dp_shard | cp,      // ranks that share one copy of the ZeRO states
  experts = shard_cp | tp,       // ranks with different rows for experts, one copy of their states
  model = tp | pp,               // ranks that together hold one copy of the model
  stage = tp | cp | dp,          // all ranks of one pipeline stage
  world = stage | pp,
};

constexpr Axes operator|(Axes a, Axes b) {
  return static_cast<Axes>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

class Mesh {
 public:
  explicit Mesh(const MeshDegrees& degrees);

  const MeshDegrees& degrees() const { return degrees_; }
  int size() const { return size_; }

  MeshPlace place_of(int rank) const;
  int rank_of(const MeshPlace& place) const;
  // Index of a rank among the dp() ranks that process different samples.
  int dp_index(int rank) const;

  // World ranks, ascending, that differ from `rank` only along `axes`, itself included.
  std::vector<int> group(int rank, Axes axes) const;
  // All groups along `axes`, ordered by their first rank; they partition the ranks.
  std::vector<std::vector<int>> groups(Axes axes) const;
  // Position of `rank` within group(rank, axes), and the size of that group.
  int index_in_group(int rank, Axes axes) const;
  int group_size(Axes axes) const;

  // Ranks of the first and last stage with the same other coordinates, which share tied embeddings.
  // One rank if pp is 1; empty for the stages between.
  std::vector<int> embedding_group(int rank) const;
  // Ranks with different experts of the same layers, or slices of them; and
  // ranks with the same experts.
  std::vector<int> expert_group(int rank) const;
  std::vector<int> expert_dp_group(int rank) const;

  // Ranks with the same KV heads of a layer.
  std::vector<int> kv_group(int rank) const;

  // "tp 2 x cp 1 x dp 4 (shard 2 x replicate 2) x pp 2 = 16 ranks"
  std::string text() const;

 private:
  static constexpr int axis_count = 5;
  struct Axis {
    int size;
    int stride;
  };

  MeshDegrees degrees_;
  Axis axes_[axis_count];  // in the order of Axes' bits: innermost first
  int size_;
};

}  // namespace trireme
