// A program: the nodes of all segments of a stage as one flat array with operand addresses.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "graph/op.h"

namespace trireme {

struct Instruction {
  const Graph* graph;
  const Node* node;
  void (*launch)(const Launch&);
  const void* prepared;
  void* workspace;
  std::array<void*, Node::max_inputs> in;
  std::array<void*, Node::max_outputs> out;
  std::int32_t layer;       // for random numbers and messages; -1 outside of blocks
  bool accumulates_always;  // not the first to write its gradient within a micro-batch
};

using Program = std::vector<Instruction>;

// Sees every instruction after it ran: profiling, the search for the first NaN.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(const Instruction&) {}
  virtual void after(const Instruction& instruction) = 0;
};

// Runs instructions. `first_micro_batch`: gradients are overwritten, else added to. `group`: the
// tensor-parallel ranks, null if this one is alone.
void execute(std::span<const Instruction> program, const StepBlock& step, bool first_micro_batch,
             RankGroup* group = nullptr, Observer* observer = nullptr);

}  // namespace trireme
