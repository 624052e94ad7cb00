// The executor: iterates over the flat array of instructions.
#include "runtime/program.h"

#include "backend/device.h"
#include "backend/ranges.h"
#include "graph/op.h"

namespace trireme {
namespace {

void* address(const RegionBases& bases, const Operand& operand) {
  return operand.absent() ? nullptr : bases[operand.region] + operand.offset;
}

}  // namespace

void execute(std::span<const Instruction> program, const RegionBases& bases, const Execution& how) {
  Queue& queue = how.device.queue();
  void* in[Node::max_inputs];
  void* out[Node::max_outputs];
  for (const Instruction& i : program) {
    for (int k = 0; k < Node::max_inputs; ++k) in[k] = address(bases, i.in[k]);
    for (int k = 0; k < Node::max_outputs; ++k) out[k] = address(bases, i.out[k]);
    const Launch launch{how.device,
                        queue,
                        *i.graph,
                        *i.node,
                        in,
                        out,
                        address(bases, i.workspace),
                        i.prepared,
                        how.step,
                        i.layer,
                        i.accumulates_always || !how.first_micro_batch,
                        &how.groups,
                        how.fixed_point};
    const ProfilerRange range(ProfilerRange::Level::op, definition(i.node->op).name);
    if (how.observer) how.observer->before(launch);
    i.launch(launch);
    if (how.observer) how.observer->after(launch);
  }
}

}  // namespace trireme
