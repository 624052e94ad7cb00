// The memory planner: assigns memory to every internal value of a segment. Memory is reused only
// within a region, by lifetime.
#pragma once

#include <cstdint>
#include <vector>

#include "base/divide.h"
#include "graph/graph.h"

namespace trireme {

struct Target;

inline constexpr std::int64_t memory_alignment = 64;
inline std::int64_t align_up(std::int64_t bytes) {
  return round_up(bytes, memory_alignment);
}

enum class Arena : std::uint8_t {
  elsewhere,   // not internal: placed according to its role
  saved,       // written in the forward phase, read later; one copy per micro-batch in flight
  late_saved,  // written in the backward phase for the weight gradients; a copy per micro-batch
               // between the two
  scratch,     // lives within one phase; shared by all phases, which never overlap
  count,
};

struct Placement {
  Arena arena = Arena::elsewhere;
  std::int64_t offset = 0;  // offset of the storage owner plus the view's own offset
};

// Scratch of one node, live only while the node runs.
struct Workspace {
  std::int64_t bytes = 0;
  Placement placement;
};

struct PlanOptions {
  bool training = true;              // false: only the forward list, everything in scratch
  bool forward_in_backward = false;  // no forward list in training (a head, fully recomputed)
  bool split_weight_grad = false;    // weight gradients run later, in their own phase
  bool reuse = true;                 // false: every value has its own memory (to find planner bugs)
};

// Node lists in execution order. split_weight_grad splits the backward list in two.
struct SegmentPlan {
  PlanOptions options;
  std::vector<Node> forward, backward, weight_grad;
  std::vector<Placement> placements;  // by value id
  std::vector<Workspace> workspaces;  // by Node::workspace
  std::int64_t saved_bytes = 0;
  std::int64_t late_saved_bytes = 0;
  std::int64_t scratch_bytes = 0;
};

// Plans and validates. `target` is the device that runs the kernels, which determines their scratch
// sizes; null for plans that are never executed.
SegmentPlan plan_segment(const Graph& graph, const PlanOptions& options,
                         const Target* target = nullptr);

// Throws if a value is read before it is written or after it was overwritten in place, or if two
// values with overlapping lifetimes overlap in memory.
void validate_plan(const Graph& graph, const SegmentPlan& plan);

}  // namespace trireme
