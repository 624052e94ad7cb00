// Functions that the hardware only approximates: computed in double precision and perturbed by part
// of the error bound that NVIDIA documents (PTX ISA, "Floating Point Instructions"), depending only
// on the argument. Results that happen to be right with better approximations thus fail.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace trireme::ptx::approximated {

// Returns a perturbation in [-1, 1] from the bits of the argument.
inline double push_of(float x) {
  const std::uint32_t mixed = (std::bit_cast<std::uint32_t>(x) ^ 0x9e3779b9u) * 0x85ebca6bu;
  return static_cast<double>(static_cast<std::int32_t>(mixed ^ mixed >> 15)) * 0x1p-31;
}
inline float canonical_nan(float x) {
  return x != x ? std::bit_cast<float>(0x7fffffffu) : x;
}
// Exact results stay exact: powers of two and their reciprocals, 0 and infinity.
inline float off(double exact, double error) {
  const auto nearest = static_cast<float>(exact);
  if (nearest == exact || !std::isfinite(nearest)) return canonical_nan(nearest);
  return static_cast<float>(exact + error);
}
inline float off_relative(double exact, float argument, double bound) {
  return off(exact, exact * push_of(argument) * bound);
}

struct PowerOfTwo {
  static float of(float x) { return off_relative(std::exp2(double{x}), x, 0x1p-22); }
};
struct Logarithm {
  static float of(float x) {
    const double exact = std::log2(double{x});
    const double bound = x > 0.5f && x < 2 ? 0x1p-22 : 0x1p-22 * std::fabs(exact);
    return off(exact, push_of(x) * bound);
  }
};
struct Reciprocal {
  static float of(float x) { return off_relative(1 / double{x}, x, 0x1p-23); }
};
struct Root {
  static float of(float x) { return off_relative(std::sqrt(double{x}), x, 0x1p-23); }
};
struct ReciprocalRoot {
  static float of(float x) { return off_relative(1 / std::sqrt(double{x}), x, 0x1p-22); }
};
struct Sine {
  static float of(float x) { return off(std::sin(double{x}), push_of(x) * 0x1p-20); }
};
struct Cosine {
  static float of(float x) { return off(std::cos(double{x}), push_of(x) * 0x1p-20); }
};
struct HyperbolicTangent {
  static float of(float x) { return off_relative(std::tanh(double{x}), x, 0x1p-11); }
};
// An error of two units in the last place.
struct Quotient {
  static float of(float a, float b) { return off_relative(double{a} / b, a, 0x1p-23); }
};

}  // namespace trireme::ptx::approximated
