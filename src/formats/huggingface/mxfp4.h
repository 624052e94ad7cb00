// Weights in MXFP4 (Open Compute Project, "Microscaling Formats", 2023), as gpt-oss's files have
// those of experts: 32 numbers of 4 bits (E2M1) share a power of two (E8M0).
#pragma once

#include <cstddef>
#include <string>

#include "base/shape.h"
#include "formats/weight_file.h"
#include "tensors/mapping.h"

namespace trireme {

// The two tensors of a weight that is named without their endings.
inline constexpr std::string_view mxfp4_blocks_ending = "_blocks", mxfp4_scales_ending = "_scales";

struct Mxfp4Part {
  const WeightFile* file = nullptr;
  const WeightEntry* entry = nullptr;
};
// blocks [experts, out, in / 32, 16] bytes, the lower half of each first; scales [experts, out, in
// / 32]. They stand for numbers in bf16, [experts, in, out].
struct Mxfp4Weight {
  Mxfp4Part blocks, scales;
};

// Refuses (exit code 2) what is incomplete or has other shapes than those of `shape`.
void check_mxfp4(const Mxfp4Weight& weight, const std::string& name, const Shape& shape);
// Reads as TensorSource::read does.
void read_mxfp4(const Mxfp4Weight& weight, const Rectangle& part, std::byte* dst);

}  // namespace trireme
