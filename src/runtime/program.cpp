// The executor: a walk over a flat array.
#include "runtime/program.h"

namespace trireme {

void execute(std::span<const Instruction> program, const StepBlock& step, bool first_micro_batch,
             RankGroup* group, Observer* observer) {
  for (const Instruction& instruction : program) {
    if (observer) observer->before(instruction);
    instruction.launch({*instruction.graph, *instruction.node, instruction.in.data(),
                        instruction.out.data(), instruction.workspace, instruction.prepared, step,
                        instruction.layer, instruction.accumulates_always || !first_micro_batch,
                        group});
    if (observer) observer->after(instruction);
  }
}

}  // namespace trireme
