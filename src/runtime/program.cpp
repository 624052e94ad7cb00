// The executor: a walk over a flat array.
#include "runtime/program.h"

namespace trireme {
namespace {

void* address(const RegionBases& bases, const Operand& operand) {
  return operand.absent() ? nullptr : bases[operand.region] + operand.offset;
}

}  // namespace

void execute(std::span<const Instruction> program, const RegionBases& bases, const StepBlock* step,
             bool first_micro_batch, RankGroup* group, Observer* observer) {
  void* in[Node::max_inputs];
  void* out[Node::max_outputs];
  for (const Instruction& i : program) {
    for (int k = 0; k < Node::max_inputs; ++k) in[k] = address(bases, i.in[k]);
    for (int k = 0; k < Node::max_outputs; ++k) out[k] = address(bases, i.out[k]);
    const Launch launch{*i.graph,
                        *i.node,
                        in,
                        out,
                        address(bases, i.workspace),
                        i.prepared,
                        step,
                        i.layer,
                        i.accumulates_always || !first_micro_batch,
                        group};
    if (observer) observer->before(launch);
    i.launch(launch);
    if (observer) observer->after(launch);
  }
}

}  // namespace trireme
