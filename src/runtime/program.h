// A program: the nodes of all segments of a stage as one flat array. Operands are stored as memory
// region and offset; a run supplies the base addresses of its micro-batch's regions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "graph/op.h"

namespace trireme {

// Regions of a stage's memory.
enum class StageRegion : std::uint8_t {
  parameters,
  gradients,
  block_inputs,  // per slot
  saved,         // per slot
  late_saved,    // per late slot
  activation_windows,
  caches,
  scratch,
  activation_grads,  // per late slot
  batch,             // per slot
  results,           // per slot
  constants,
  count,
};

inline constexpr auto all_regions = [] {
  std::array<StageRegion, static_cast<std::size_t>(StageRegion::count)> regions{};
  for (std::size_t i = 0; i < regions.size(); ++i) regions[i] = static_cast<StageRegion>(i);
  return regions;
}();

// One item for each region.
template <class T>
class PerRegion {
 public:
  T& operator[](StageRegion region) { return items_[static_cast<std::size_t>(region)]; }
  const T& operator[](StageRegion region) const { return items_[static_cast<std::size_t>(region)]; }

 private:
  std::array<T, all_regions.size()> items_{};
};

// Base address of each region for one micro-batch; null if the region does not exist.
using RegionBases = PerRegion<std::byte*>;

struct Operand {
  StageRegion region = StageRegion::count;  // count: absent
  std::int64_t offset = 0;                  // in bytes

  bool absent() const { return region == StageRegion::count; }
  friend bool operator<(const Operand& a, const Operand& b) {
    return std::tie(a.region, a.offset) < std::tie(b.region, b.offset);
  }
};

struct Instruction {
  const Graph* graph;
  const Node* node;
  void (*launch)(const Launch&);
  const void* prepared;
  Operand workspace;
  std::array<Operand, Node::max_inputs> in;
  std::array<Operand, Node::max_outputs> out;
  std::int32_t layer;       // for random numbers and messages; -1 outside blocks
  bool accumulates_always;  // not the micro-batch's first writer of its gradient
};

using Program = std::vector<Instruction>;

class Stage;
struct PassCall;

// Hooks called when a pass begins, and before and after each launch: for profiling and the
// search for the first NaN.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void begin(const Stage&, const PassCall&) {}
  virtual void before(const Launch&) {}
  virtual void after(const Launch& launch) = 0;
};

// Context of a program's execution.
struct Execution {
  Device& device;
  const RankGroups& groups;
  const StepBlock* step;   // in device memory; null if nothing reads it
  bool first_micro_batch;  // gradients are overwritten, else accumulated
  FixedPoint fixed_point = {};
  Observer* observer = nullptr;
};

// Enqueues instructions on the device's compute queue.
void execute(std::span<const Instruction> program, const RegionBases& bases, const Execution& how);

}  // namespace trireme
