// Valid values that messages propose: divisors and multiples near a number that does not fit.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// Up to four divisors of `number` around `wanted`, in order: "2, 3, 4 or 6". `number` >= 1.
std::string divisors_near(std::int64_t number, std::int64_t wanted);

// The multiples of `unit` on both sides of `wanted`: "96 or 128". `unit` >= 1.
std::string multiples_near(std::int64_t wanted, std::int64_t unit);

}  // namespace trireme
