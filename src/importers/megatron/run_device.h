// The vendor of the GPUs of a foreign training: run.device of its configuration.
#pragma once

#include <span>
#include <string>

#include "importers/megatron/translate.h"

namespace trireme::megatron {

// Sets run.device of a training that its source runs on GPUs. `said` is the user's word ("cpu",
// "cuda", "hip"; "" where nothing was said). `hints` are texts of the source, the strongest first:
// the first text that names one vendor decides ("rocm", "standard-g", "nvidia-smi", "a100"). Where
// none does, "cuda" is set, with a note that says so.
void set_run_device(Translation& translation, const std::string& said,
                    std::span<const std::string> hints);

}  // namespace trireme::megatron
