// Checks of collectives on any transport; the same ones run on threads and on MPI processes.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "comm/transport.h"

namespace trireme::testing_comm {

// Element `i` that rank `r` contributes: magnitudes vary widely, so that summation order matters.
inline std::uint64_t scramble(int r, std::int64_t i) {
  std::uint64_t x = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15 +
                    static_cast<std::uint64_t>(r) * 0xD1B54A32D192ED03;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9;
  return x ^ (x >> 32);
}

inline float contribution(int r, std::int64_t i) {
  const std::uint64_t bits = scramble(r, i);
  const float scale = std::bit_cast<float>(static_cast<std::uint32_t>(117 + bits % 20) << 23);
  return (static_cast<float>(static_cast<std::int32_t>(bits >> 32)) * 0x1p-31f) * scale;
}

template <class T>
std::vector<T> contributions(int r, std::int64_t begin, std::int64_t count) {
  std::vector<T> values(count);
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      values[i] = static_cast<T>(scramble(r, begin + i));
    } else {
      values[i] = static_cast<T>(contribution(r, begin + i));
    }
  }
  return values;
}

// A direct implementation of the documented summation order.
template <class T>
std::vector<T> expected_sum(int ranks, std::int64_t begin, std::int64_t count) {
  std::vector<T> result(count);
  std::vector<std::vector<T>> all(ranks);
  for (int r = 0; r < ranks; ++r) all[r] = contributions<T>(r, begin, count);
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      std::uint64_t sum = 0;
      for (int r = 0; r < ranks; ++r) sum += static_cast<std::uint64_t>(all[r][i]);
      result[i] = static_cast<T>(sum);
    } else {
      using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
      A sum = static_cast<A>(all[0][i]);
      for (int r = 1; r < ranks; ++r) sum += static_cast<A>(all[r][i]);
      result[i] = static_cast<T>(sum);
    }
  }
  return result;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
void check_sums(Communicator& comm, std::int64_t count, DType dtype) {
  const int n = comm.size();
  SCOPED_TRACE(::testing::Message() << name_of(dtype) << " x " << count << " on " << n << " ranks");
  std::vector<T> data = contributions<T>(comm.rank(), 0, count);
  comm.all_reduce(data.data(), count, dtype, Reduction::sum, "all_reduce").wait();
  EXPECT_TRUE(same_bits(data, expected_sum<T>(n, 0, count)));

  const std::vector<T> src = contributions<T>(comm.rank(), 0, n * count);
  std::vector<T> kept = src;
  std::vector<T> part(count);
  comm.reduce_scatter(src.data(), part.data(), count, dtype, Reduction::sum, "reduce_scatter")
      .wait();
  EXPECT_TRUE(same_bits(part, expected_sum<T>(n, comm.rank() * count, count)));
  EXPECT_TRUE(same_bits(src, kept));
  // In-place variant.
  comm.reduce_scatter(kept.data(), kept.data() + comm.rank() * count, count, dtype, Reduction::sum,
                      "in place")
      .wait();
  EXPECT_TRUE(same_bits(part, std::vector<T>(kept.begin() + comm.rank() * count,
                                             kept.begin() + (comm.rank() + 1) * count)));
}

// The sum of ranks [begin, end) in tree order: the left part is the largest power of two.
inline float tree_sum(int begin, int end, std::int64_t i) {
  if (end - begin == 1) return contribution(begin, i);
  const int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(end - begin - 1)));
  return tree_sum(begin, begin + left, i) + tree_sum(begin + left, end, i);
}

inline void check_trees(Communicator& comm, std::int64_t count) {
  const int n = comm.size();
  SCOPED_TRACE(::testing::Message() << count << " on " << n << " ranks");
  std::vector<float> data = contributions<float>(comm.rank(), 0, count), expected(count);
  for (std::int64_t i = 0; i < count; ++i) expected[i] = tree_sum(0, n, i);
  comm.all_reduce(data.data(), count, DType::f32, Reduction::tree, "tree").wait();
  EXPECT_TRUE(same_bits(data, expected));
  if (n > 3 && count > 100) {  // rank order gives another result
    EXPECT_FALSE(same_bits(data, expected_sum<float>(n, 0, count)));
  }
}

inline void check_movement(Communicator& comm, std::int64_t count) {
  const int n = comm.size();
  SCOPED_TRACE(::testing::Message() << count << " on " << n << " ranks");
  const auto value = [](int from, int to, std::int64_t i) {
    return (from * 1000 + to) * 100003 + i;
  };
  std::vector<std::int64_t> src(n * count), dst(n * count, -1);
  for (int k = 0; k < n; ++k) {
    for (std::int64_t i = 0; i < count; ++i) src[k * count + i] = value(comm.rank(), k, i);
  }
  comm.all_to_all(src.data(), dst.data(), count, DType::i64, "all_to_all").wait();
  bool right = true;
  for (int k = 0; k < n; ++k) {
    for (std::int64_t i = 0; i < count; ++i)
      right &= dst[k * count + i] == value(k, comm.rank(), i);
  }
  EXPECT_TRUE(right);

  std::fill(dst.begin(), dst.end(), -1);
  comm.all_gather(src.data(), dst.data(), count, DType::i64, "all_gather").wait();
  for (int k = 0; k < n; ++k) {
    for (std::int64_t i = 0; i < count; ++i) right &= dst[k * count + i] == value(k, 0, i);
  }
  EXPECT_TRUE(right);

  for (int root = 0; root < n; ++root) {
    std::vector<std::int64_t> data(count, comm.rank() == root ? root + 5 : -1);
    comm.broadcast(data.data(), count, DType::i64, root, "broadcast").wait();
    right &= data == std::vector<std::int64_t>(count, root + 5);
  }
  EXPECT_TRUE(right);
}

inline void check_maximum(Communicator& comm) {
  std::vector<float> data = {static_cast<float>(comm.rank()),
                             -1.0f - static_cast<float>(comm.rank()),
                             comm.rank() == comm.size() - 1 ? std::nanf("") : 3.0f};
  comm.all_reduce(data.data(), 3, DType::f32, Reduction::max, "max").wait();
  EXPECT_EQ(data[0], static_cast<float>(comm.size() - 1));
  EXPECT_EQ(data[1], -1.0f);
  EXPECT_TRUE(std::isnan(data[2]));
}

// A ring in which every rank sends first: blocking sends would deadlock.
inline void check_ring(Communicator& comm, std::int64_t count) {
  const int n = comm.size();
  const int next = (comm.rank() + 1) % n;
  const int previous = (comm.rank() + n - 1) % n;
  std::vector<float> out(count, static_cast<float>(comm.rank())), in(count, -1);
  Work sent = comm.send(out.data(), count, DType::f32, next, "ring");
  Work received = comm.receive(in.data(), count, DType::f32, previous, "ring");
  received.wait();
  sent.wait();
  EXPECT_EQ(in, std::vector<float>(count, static_cast<float>(previous)));
}

// Many operations in flight at once, in several groups, waited for in a different order.
inline void check_crowd(Communicator& comm, Communicator& other) {
  constexpr int rounds = 12;
  constexpr std::int64_t count = 30000;
  const int n = comm.size();
  std::vector<std::vector<std::int64_t>> sums(rounds), gathered(rounds), sent(rounds),
      received(rounds);
  std::vector<Work> works;
  for (int k = 0; k < rounds; ++k) {
    sums[k].assign(count, comm.rank() + k);
    works.push_back(comm.all_reduce(sums[k].data(), count, DType::i64, Reduction::sum, {"sum", k}));
    gathered[k].assign(other.size(), 0);
    const std::int64_t own = 10 * other.rank() + k;
    gathered[k][other.rank()] = own;
    works.push_back(other.all_gather(gathered[k].data() + other.rank(), gathered[k].data(), 1,
                                     DType::i64, {"gather", k}));
    sent[k].assign(count, 100 * comm.rank() + k);
    received[k].assign(count, -1);
    const Transfer both[] = {
        {Transfer::Direction::send, (comm.rank() + 1) % n, sent[k].data(), count, DType::i64},
        {Transfer::Direction::receive, (comm.rank() + n - 1) % n, received[k].data(), count,
         DType::i64}};
    works.push_back(comm.exchange(both, {"exchange", k}));
  }
  while (!works.empty()) {  // in any order
    works.back().wait();
    works.pop_back();
  }
  for (int k = 0; k < rounds; ++k) {
    EXPECT_EQ(sums[k], std::vector<std::int64_t>(count, n * (n - 1) / 2 + n * k));
    for (int r = 0; r < other.size(); ++r) EXPECT_EQ(gathered[k][r], 10 * r + k);
    EXPECT_EQ(received[k], std::vector<std::int64_t>(count, 100 * ((comm.rank() + n - 1) % n) + k));
  }
}

}  // namespace trireme::testing_comm
