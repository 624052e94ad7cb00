// Table 2.1 of Brown et al. 2020.
#include "cli/configure/config_recommended.h"

#include <array>

namespace trireme::cli {
namespace {

constexpr std::array<Recommended, 8> recommended = {{{0.125e9, 6e-4, 0.5e6},
                                                     {0.35e9, 3e-4, 0.5e6},
                                                     {0.76e9, 2.5e-4, 0.5e6},
                                                     {1.3e9, 2e-4, 1e6},
                                                     {2.7e9, 1.6e-4, 1e6},
                                                     {6.7e9, 1.2e-4, 2e6},
                                                     {13e9, 1e-4, 2e6},
                                                     {175e9, 0.6e-4, 3.2e6}}};

}  // namespace

const Recommended& recommended_for(double parameters) {
  for (const Recommended& row : recommended)
    if (parameters <= 1.2 * row.parameters) return row;
  return recommended.back();
}

}  // namespace trireme::cli
