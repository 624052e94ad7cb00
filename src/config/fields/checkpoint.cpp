// The keys of [checkpoint] and [log].
#include "config/fields/row.h"

namespace trireme {

std::vector<Field> checkpoint_fields() {
  return {
      FIELD(checkpoint, interval, count(), "iterations",
            "interval between saves; 0: only at the end")
          .also("save_interval save_steps"),
      FIELD(checkpoint, keep, count(), "checkpoints",
            "number of newest checkpoints to keep; 0: all")
          .also("save_total_limit"),
      FIELD(checkpoint, async, any(), "", "write in the background while training continues"),
      FIELD(checkpoint, load, any(), "", "folder to resume from; \"\": run.dir"),
      FIELD(checkpoint, load_optimizer, any(), "", "also load the optimizer states"),
      FIELD(checkpoint, finetune, any(), "", "load only the weights; counters start at zero"),
      Field{"checkpoint", "export",
            [](Config& c) -> FieldSlot { return slot_of(&c.checkpoint.export_format); }, any(), "",
            "hf: also export checkpoints as Hugging Face folders, run.dir/exports/step-..., while "
            "training continues"},
      FIELD(checkpoint, export_interval, count(), "iterations",
            "interval between exported checkpoints, a multiple of checkpoint.interval; 0: only the "
            "last one"),
      FIELD(checkpoint, fallback, any(), "",
            "check the newest checkpoint before resuming from it; if it is damaged, resume from "
            "the newest valid one"),
      FIELD(checkpoint, local_dir, any(), "",
            "folder on a local disk of each node, for checkpoints between those in run.dir; \"\": "
            "none"),
      FIELD(checkpoint, local_interval, count(), "iterations",
            "interval between saves to local_dir"),
      FIELD(checkpoint, local_copies, between(0, 1), "",
            "copies of each local checkpoint, in local_dir of another node, so that a lost node "
            "costs at most local_interval and the steps taken during one copy"),

      FIELD(log, level, any(), "",
            "lowest level of lines shown on the terminal; log.txt always contains lines up to "
            "level info"),
      FIELD(log, tensorboard, any(), "", "write TensorBoard event files to run.dir"),
  };
}

}  // namespace trireme
