// Tests of counts with their noun.
#include "base/counted.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Counted, UsesTheSingularForOneOnly) {
  EXPECT_EQ(counted(1, "token"), "1 token");
  EXPECT_EQ(counted(0, "token"), "0 tokens");
  EXPECT_EQ(counted(2, "micro-batch"), "2 micro-batches");
  EXPECT_EQ(counted(1.0, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(counted(1.5, "micro-batch"), "1.5 micro-batches");
}

TEST(Counted, FormsPlurals) {
  EXPECT_EQ(plural("search"), "searches");
  EXPECT_EQ(plural("epoch"), "epochs");
  EXPECT_EQ(plural("process"), "processes");
  EXPECT_EQ(plural("suffix"), "suffixes");
  EXPECT_EQ(plural("entry"), "entries");
  EXPECT_EQ(plural("key"), "keys");
  EXPECT_EQ(plural("chunk of layers"), "chunks of layers");
}

}  // namespace
}  // namespace trireme
