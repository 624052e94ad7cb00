// How often experts are chosen.
#pragma once

#include <cstdint>

#include "backend/device.h"
#include "backend/kernels.h"

namespace trireme::gpu {

// What route_grad of a table counts. `scratch` has a number for each expert.

// Adds the choices that each expert kept, and those that were dropped, to the totals of `layer`,
// and the former to dbias, unless it is null.
void count_kept(Queue&, const RouterShape&, std::int32_t* scratch, float* dbias, bool accumulate,
                const std::int32_t* chosen, const std::int32_t* places, const StepBlock* block,
                std::int32_t layer);

// dload (+)= the choices by plain score. plain: `chosen` is by plain score.
void count_load(Queue&, const RouterShape&, std::int32_t* scratch, float* dload, bool accumulate,
                bool plain, const float* logits, const std::int32_t* chosen,
                const StepBlock* block);

}  // namespace trireme::gpu
