// Measures how the cost of work grows with its size, which a time limit in seconds cannot test on a
// loaded machine.
#pragma once

#include <algorithm>
#include <ctime>

namespace trireme {

inline double processor_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Returns processor time of work(8 * size) over that of work(size), each the minimum of three runs:
// about 8 for linear work, 64 for quadratic work.
template <class Work>
double growth_over_8(const Work& work, int size) {
  const auto least = [&](int of) {
    double seconds = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double begin = processor_seconds();
      work(of);
      seconds = std::min(seconds, processor_seconds() - begin);
    }
    return seconds;
  };
  const double small = least(size);
  return least(8 * size) / small;
}

// Threshold between the growth of linear work and of quadratic work.
constexpr double subquadratic = 30;

}  // namespace trireme
