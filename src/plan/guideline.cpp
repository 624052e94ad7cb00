// Rows of common guides for 80 GB GPUs (such as Accelerate's).
#include "plan/guideline.h"

#include <array>
#include <cmath>

namespace trireme {
namespace {

constexpr std::array<Guideline, 9> rows = {{{"1B", 1e9, 4, 2, 2},
                                            {"7B", 7e9, 8, 4, 2},
                                            {"13B", 13e9, 8, 8, 1},
                                            {"20B", 20e9, 16, 4, 1},
                                            {"30B", 30e9, 16, 8, 2},
                                            {"40B", 40e9, 32, 4, 2},
                                            {"70B", 70e9, 32, 8, 4},
                                            {"70B", 70e9, 64, 8, 2},
                                            {"175B", 175e9, 128, 8, 4}}};

}  // namespace

std::span<const Guideline> all_guidelines() {
  return rows;
}

const Guideline& guideline_for(double parameters, std::int64_t ranks) {
  const auto distance = [&](const Guideline& row) {
    return std::abs(std::log(parameters / row.parameters));
  };
  const Guideline* best = rows.data();
  for (const Guideline& row : rows) {
    const bool nearer = distance(row) < distance(*best),
               as_near = row.parameters == best->parameters;
    if (nearer || (as_near && row.ranks <= ranks)) best = &row;
  }
  return *best;
}

}  // namespace trireme
