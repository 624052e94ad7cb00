// The keys of [checkpoint] and [log].
#include "config/fields/row.h"

namespace trireme {

std::vector<Field> checkpoint_fields() {
  return {
      FIELD(checkpoint, interval, count(), "iterations",
            "interval between saves; 0: only at the end")
          .also("save_interval save_steps"),
      FIELD(checkpoint, keep, count(), "checkpoints", "number of newest ones that are kept; 0: all")
          .also("save_total_limit"),
      FIELD(checkpoint, async, any(), "", "write while training continues"),
      FIELD(checkpoint, load, any(), "", "folder to start from; \"\": run.dir"),
      FIELD(checkpoint, load_optimizer, any(), "", "load the optimizer states too"),
      FIELD(checkpoint, finetune, any(), "", "load only the weights; counters start at zero"),
      Field{"checkpoint", "export",
            [](Config& c) -> FieldSlot { return slot_of(&c.checkpoint.export_format); }, any(), "",
            "hf: write checkpoints as Hugging Face folders too, run.dir/exports/step-..., while "
            "training continues"},
      FIELD(checkpoint, export_interval, count(), "iterations",
            "interval between checkpoints that are exported, a multiple of checkpoint.interval; 0: "
            "only the last one"),
      FIELD(checkpoint, fallback, any(), "",
            "check the newest checkpoint before resuming from it; if it is damaged, resume from "
            "the newest valid one"),
      FIELD(checkpoint, local_dir, any(), "",
            "folder on a disk of each node, for checkpoints between those in run.dir; \"\": none"),
      FIELD(checkpoint, local_interval, count(), "iterations",
            "interval between saves to local_dir"),
      FIELD(checkpoint, local_copies, between(0, 1), "",
            "copies of each local checkpoint, in local_dir of another node, so that a lost node "
            "costs at most local_interval"),

      FIELD(log, level, any(), "",
            "the least important lines that the terminal shows; log.txt keeps all up to info at "
            "every level"),
      FIELD(log, tensorboard, any(), "", "write TensorBoard event files into run.dir"),
  };
}

}  // namespace trireme
