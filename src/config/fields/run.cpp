// The keys of [run].
#include "config/fields/row.h"

namespace trireme {

std::vector<Field> run_fields() {
  return {
      FIELD(run, dir, any(), "", "folder for checkpoints, metrics and logs")
          .also("output_dir out_dir save_dir"),
      FIELD(run, seed, count(), "", "seed of initialization, data order and dropout"),
      FIELD(run, precision, any(), "",
            "compute precision of the model; bf16 and fp16 keep fp32 master weights")
          .also("bf16 fp16 mixed_precision dtype"),
      FIELD(run, gradient_dtype, any(), "",
            "data type of accumulated gradients; bf16 halves their memory and, on CPUs, their "
            "traffic (on a GPU the traffic per micro-batch grows by half), and uses stochastic "
            "rounding; runs in fp64 accumulate in fp64"),
      FIELD(run, device, any(), "", "compute device; the emulated GPU is for tests"),
      FIELD(run, memory, any(), "",
            "memory limit of each process for planning, such as \"64GiB\"; \"\": its share of the "
            "machine"),
      FIELD(run, peak_tflops, between(0, 1e9), "TFLOP/s",
            "peak throughput of a device, used to compute the MFU in the log; 0: from its machine "
            "file, if the device is known"),
  };
}

}  // namespace trireme
