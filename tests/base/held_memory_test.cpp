// Tests of held memory: blocks that an operation may still access are freed only when it completes.
#include "base/held_memory.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(HeldMemory, BlocksWaitForThoseWhoHoldAPartOfThem) {
  char memory[100];
  bool first = false, second = false;
  const std::uint64_t one = hold_memory({{memory + 10, 5}, {memory + 60, 1}});
  const std::uint64_t other = hold_memory({{memory + 40, 10}});
  free_when_released({memory, 50}, [&] { first = true; });
  free_when_released({memory + 50, 50}, [&] { second = true; });
  EXPECT_FALSE(first || second);
  release_memory(one);
  EXPECT_TRUE(second);
  EXPECT_FALSE(first);  // also held by the other operation
  release_memory(other);
  EXPECT_TRUE(first);
}

TEST(HeldMemory, WhatNobodyHoldsIsFreedAtOnce) {
  char memory[100];
  bool freed = false;
  const std::uint64_t number = hold_memory({{memory + 50, 50}});
  free_when_released({memory, 50}, [&] { freed = true; });  // adjacent block
  EXPECT_TRUE(freed);
  release_memory(number);
}

}  // namespace
}  // namespace trireme
