// Extent of the slow tests: a sample of layouts and faults, and all of them in `./test long`.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <vector>

namespace trireme {

inline bool long_tests() {
  return std::getenv("TRIREME_LONG_TESTS") != nullptr;
}

inline int in_long_tests(int all, int sample) {
  return long_tests() ? all : sample;
}

// Returns every third element, so that three tests that share a list cover all of it: `first` is 0,
// 1 or 2.
template <class T>
std::vector<T> sample_of(const std::vector<T>& all, std::size_t first) {
  if (long_tests()) return all;
  std::vector<T> sample;
  for (std::size_t i = first; i < all.size(); i += 3) sample.push_back(all[i]);
  return sample;
}

}  // namespace trireme
