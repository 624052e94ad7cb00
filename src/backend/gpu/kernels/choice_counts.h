// Counts the choices of experts.
#pragma once

#include <cstdint>

#include "backend/device.h"
#include "backend/kernels.h"

namespace trireme::gpu {

// Counting parts of route_grad. `scratch` has one element per expert.

// Adds each expert's kept choices, and the dropped ones, to the totals of `layer`, and the kept
// ones to dbias, unless it is null.
void count_kept(Queue&, const RouterShape&, std::int32_t* scratch, float* dbias, bool accumulate,
                const std::int32_t* chosen, const std::int32_t* places, const StepBlock* block,
                std::int32_t layer);

// dload (+)= choices by plain score. plain: `chosen` is already by plain score.
void count_load(Queue&, const RouterShape&, std::int32_t* scratch, float* dload, bool accumulate,
                bool plain, const float* logits, const std::int32_t* chosen,
                const StepBlock* block);

}  // namespace trireme::gpu
