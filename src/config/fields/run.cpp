// The keys of [run].
#include "config/fields/row.h"

namespace trireme {

std::vector<Field> run_fields() {
  return {
      FIELD(run, dir, any(), "", "folder for checkpoints, metrics and logs")
          .also("output_dir out_dir save_dir"),
      FIELD(run, seed, count(), "", "seed of initialization, data order and dropout"),
      FIELD(run, precision, any(), "",
            "arithmetic of the model; bf16 and fp16 keep fp32 master weights")
          .also("bf16 fp16 mixed_precision dtype"),
      FIELD(
          run, gradient_dtype, any(), "",
          "type of the gradient sums; bf16 halves their memory and, on CPUs, their traffic (a GPU "
          "moves half as much again for each micro-batch), and rounds stochastically; fp64 runs "
          "sum in fp64"),
      FIELD(run, device, any(), "", "device that computes; the emulated GPU is for tests"),
      FIELD(
          run, memory, any(), "",
          "memory that a process may plan to use, as in \"64GiB\"; \"\": its share of the machine"),
      FIELD(run, peak_tflops, between(0, 1e9), "TFLOP/s",
            "what a device computes at most, which the MFU of the log is a share of; 0: as its "
            "machine file says, where the device is known"),
  };
}

}  // namespace trireme
