// Gradients as 64-bit fixed-point numbers: integer sums do not depend on their order, so that the
// sum over micro-batches is the same bits whoever adds which of them first.
#pragma once

#include <cstdint>

namespace trireme {

// The unit of a gradient of the mean loss, 2^-44: a millionth of Adam's usual epsilon.
inline constexpr int fixed_point_bits = 44;

// accumulator[i] (= or +=) gradient[i] * 2^44 / loss_scale, rounded to the nearest integer, ties to
// even. Returns false if any element is not finite or larger than `limit` (in units of the
// accumulator): the sum then means nothing.
bool add_fixed_point(std::int64_t* accumulator, const float* gradient, std::int64_t count,
                     double loss_scale, double limit, bool overwrite);

// The largest element of one summand such that `summands` of them cannot overflow.
double fixed_point_limit(std::int64_t summands);

// Turns sums into gradients times `loss_scale`, in place: element i of the result is the i-th float
// of the same memory.
void fixed_point_to_float(std::int64_t* sums, std::int64_t count, double loss_scale);

}  // namespace trireme
