// Tests of invalid uses of parallel.exact_leaves, and of what the message suggests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/refused.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string with_leaves(std::int64_t ranks, std::vector<std::string> more) {
  more.insert(more.begin(), {"parallel.numerics=exact", "parallel.exact_block=256"});
  return layout_refused(ranks, more);
}

TEST(ExactLeaves, DivideHeadsAndTheMlp) {
  EXPECT_EQ(with_leaves(1, {"parallel.exact_leaves=4"}), "accepted");
  EXPECT_EQ(with_leaves(
                8, {"parallel.exact_leaves=4", "parallel.tp=4", "parallel.sequence_parallel=true"}),
            "accepted");
  EXPECT_THAT(with_leaves(1, {"parallel.exact_leaves=8"}),
              HasSubstr("does not divide model.num_kv_heads = 12"));
  EXPECT_THAT(with_leaves(1, {"parallel.exact_leaves=8"}), HasSubstr("can be 2 or 4"));
  EXPECT_THAT(with_leaves(1, {"parallel.exact_leaves=4", "model.ffn_hidden_size=3074"}),
              HasSubstr("does not divide model.ffn_hidden_size = 3074"));
  EXPECT_THAT(with_leaves(1, {"parallel.exact_leaves=3"}), HasSubstr("not a power of two"));
}

TEST(ExactLeaves, GoWithADegreeThatDividesThemAndExactBlocks) {
  EXPECT_THAT(with_leaves(4, {"parallel.exact_leaves=2", "parallel.tp=4"}),
              HasSubstr("tp can be 1 or 2"));
  EXPECT_THAT(layout_refused(1, {"parallel.exact_leaves=2"}), HasSubstr("numerics = \"exact\""));
  EXPECT_THAT(layout_refused(2, {"parallel.exact_leaves=2", "parallel.numerics=exact",
                                 "parallel.tp=2", "parallel.sequence_parallel=true"}),
              HasSubstr("set exact_block to 1024"));
}

TEST(ExactLeaves, NameWhatTheyDoNotCover) {
  const auto refusal = [](const std::string& setting) {
    return with_leaves(1, {"parallel.exact_leaves=2", setting});
  };
  EXPECT_THAT(refusal("run.device=cuda"), HasSubstr("run.device"));
  EXPECT_THAT(refusal("moe.num_experts=4"), HasSubstr("moe.num_experts"));
  EXPECT_THAT(refusal("optimizer.name=muon"), HasSubstr("muon"));
  EXPECT_THAT(refusal("optimizer.moment_dtype=bf16"), HasSubstr("moment_dtype"));
  EXPECT_THAT(refusal("fp8.recipe=tensorwise"), HasSubstr("fp8.recipe"));
}

}  // namespace
}  // namespace trireme
