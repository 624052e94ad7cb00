// Infers run.device from the GPU vendor of a foreign training.
#pragma once

#include <span>
#include <string>

#include "importers/megatron/translate.h"

namespace trireme::megatron {

// Sets run.device for a training that ran on GPUs. `said` is the user's choice ("cpu", "cuda",
// "hip"; "" if none). `hints` are texts of the source, strongest first: the first that names
// exactly one vendor decides ("rocm", "standard-g", "nvidia-smi", "a100"). Otherwise sets "cuda"
// with a note.
void set_run_device(Translation& translation, const std::string& said,
                    std::span<const std::string> hints);

}  // namespace trireme::megatron
