// What the tests of kernels share: the types and instruction sets to run, guarded buffers, random
// tensors and comparison with references in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/device.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernels.h"
#include "base/random.h"
#include "base/thread_pool.h"

namespace trireme::cpu {

using StorageTypes = testing::Types<float, bf16, f16, double>;

// The sets that this processor has.
inline std::vector<Isa> available_sets() {
  std::vector<Isa> sets;
  for (const Isa set : {Isa::avx2, Isa::avx512, Isa::amx}) {
    if (supports(set)) sets.push_back(set);
  }
  return sets;
}

template <class T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return static_cast<double>(static_cast<float>(value));
  }
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return T(static_cast<float>(value));
  }
}

// `count` elements between two guards that must stay untouched; not aligned, as views into larger
// tensors are not. Filled with a pattern that shows what was never written.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::int64_t count) : count_(count), bytes_((count + 2 * guard) * sizeof(T)) {
    std::memset(bytes_.data(), pattern, bytes_.size());
  }
  Guarded(const std::vector<double>& values) : Guarded(static_cast<std::int64_t>(values.size())) {
    for (std::int64_t i = 0; i < count_; ++i) data()[i] = from_double<T>(values[i]);
  }

  T* data() { return reinterpret_cast<T*>(bytes_.data()) + guard; }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()) + guard; }
  std::int64_t size() const { return count_; }
  double operator[](std::int64_t i) const { return to_double(data()[i]); }
  std::vector<double> values() const {
    std::vector<double> out(count_);
    for (std::int64_t i = 0; i < count_; ++i) out[i] = (*this)[i];
    return out;
  }
  bool intact() const {
    const std::size_t edge = guard * sizeof(T);
    for (std::size_t i = 0; i < edge; ++i) {
      if (bytes_[i] != pattern || bytes_[bytes_.size() - 1 - i] != pattern) return false;
    }
    return true;
  }
  bool same_bits(const Guarded& other) const { return bytes_ == other.bytes_; }

 private:
  static constexpr std::int64_t guard = 33;
  static constexpr unsigned char pattern = 0xcd;
  std::int64_t count_;
  std::vector<unsigned char> bytes_;
};

// Normal numbers that T holds exactly, always the same for a stream.
template <class T>
std::vector<double> random_values(std::int64_t count, std::uint64_t stream, double scale = 1,
                                  double shift = 0) {
  std::vector<double> out(count);
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = to_double(from_double<T>(shift + scale * normal(17, stream, i)));
  }
  return out;
}

// Largest relative error of rounding into T.
template <class T>
constexpr double rounding = 0x1p-24;
template <>
inline constexpr double rounding<bf16> = 0x1p-8;
template <>
inline constexpr double rounding<f16> = 0x1p-11;
template <>
inline constexpr double rounding<double> = 0x1p-53;

// Every element within one rounding into T plus `slack` roundings of the arithmetic type at
// `magnitude`, the size of the terms that were added up.
template <class T>
testing::AssertionResult close(const Guarded<T>& actual, const std::vector<double>& expected,
                               double slack = 16, double magnitude = 1) {
  if (actual.size() != static_cast<std::int64_t>(expected.size())) {
    return testing::AssertionFailure() << "sizes differ";
  }
  if (!actual.intact()) return testing::AssertionFailure() << "a guard was overwritten";
  for (std::int64_t i = 0; i < actual.size(); ++i) {
    const double want = expected[i];
    const double got = actual[i];
    if (std::isnan(want) && std::isnan(got)) continue;
    if (want == got) continue;
    const double tolerance = rounding<T> * std::abs(want) +
                             slack * rounding<Acc<T>> * (magnitude + std::abs(want)) +
                             (std::is_same_v<T, f16> ? 0x1p-25 : 0.0);
    if (!(std::abs(got - want) <= tolerance)) {
      return testing::AssertionFailure() << "element " << i << " is " << got << ", expected "
                                         << want << " (tolerance " << tolerance << ")";
    }
  }
  return testing::AssertionSuccess();
}

// Runs `body` with pools of several sizes; restores the default pool afterwards.
template <class Body>
void with_thread_counts(Body body) {
  for (const int threads : {1, 2, 5}) {
    SCOPED_TRACE(testing::Message() << threads << " threads");
    ThreadPool::set_global_size(threads);
    body(threads);
  }
  ThreadPool::set_global_size(0);
}

// Runs `body` for every available instruction set.
template <class Body>
void with_sets(Body body) {
  for (const Isa set : available_sets()) {
    SCOPED_TRACE(name_of(set));
    body(set);
  }
}

// Derivative of f() with respect to one of its inputs, by central differences.
template <class F>
double slope(double& input, F f, double step = 1e-5) {
  const double at = input;
  input = at + step;
  const double above = f();
  input = at - step;
  const double below = f();
  input = at;
  return (above - below) / (2 * step);
}

}  // namespace trireme::cpu
