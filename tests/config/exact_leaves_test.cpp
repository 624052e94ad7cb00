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
  EXPECT_THAT(with_leaves(1, {"parallel.exact_leaves=4", "model.family=llama", "moe.num_experts=8",
                              "moe.shared_ffn_hidden_size=6"}),
              HasSubstr("does not divide moe.shared_ffn_hidden_size = 6"));
}

// Leaves copy key and value heads, whose number must then be a power of two.
TEST(ExactLeaves, CanBeMoreThanKeyHeads) {
  const auto with_heads = [](const char* heads, const char* key_heads) {
    return with_leaves(8, {"parallel.exact_leaves=8", "parallel.tp=8", "model.family=llama",
                           std::string("model.num_heads=") + heads,
                           std::string("model.num_kv_heads=") + key_heads});
  };
  EXPECT_EQ(with_heads("16", "1"), "accepted");
  EXPECT_EQ(with_heads("16", "4"), "accepted");
  EXPECT_THAT(with_heads("12", "4"), HasSubstr("tp"));
  EXPECT_THAT(with_leaves(1, {"parallel.exact_leaves=8", "model.family=llama", "model.num_heads=12",
                              "model.num_kv_heads=4"}),
              HasSubstr("does not divide model.num_heads = 12"));
}

TEST(ExactLeaves, AreWholeBlocksOfFp8) {
  const std::vector<std::string> fp8 = {"parallel.exact_leaves=4", "fp8.recipe=blockwise",
                                        "model.num_heads=8"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), fp8.begin(), fp8.end());
    return with_leaves(1, more);
  };
  EXPECT_EQ(with({"model.head_dim=128", "model.ffn_hidden_size=3072"}), "accepted");
  EXPECT_THAT(with({"model.head_dim=128", "model.ffn_hidden_size=3136"}),
              HasSubstr("model.ffn_hidden_size = 3136 over parallel.exact_leaves = 4 is 784"));
  EXPECT_THAT(with({"model.head_dim=96", "model.ffn_hidden_size=3072"}),
              HasSubstr("parallel.exact_leaves = 4"));
}

// Its heads have rows of words and of samples, so it has no exact blocks.
TEST(ExactLeaves, OfBertNeedNoBlocksAndWholeRows) {
  const auto bert = [](const std::string& setting) {
    return layout_refused(4, {"model.family=bert", "parallel.numerics=exact",
                              "parallel.exact_leaves=4", "parallel.tp=4", setting});
  };
  EXPECT_EQ(bert("parallel.pp=1"), "accepted");
  EXPECT_THAT(bert("parallel.sequence_parallel=true"), HasSubstr("parallel.sequence_parallel"));
  EXPECT_THAT(bert("model.qk_norm=true"), HasSubstr("model.qk_norm"));
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
  EXPECT_THAT(refusal("optimizer.moment_dtype=bf16"), HasSubstr("moment_dtype"));
  for (const char* covered :
       {"run.device=cuda", "moe.num_experts=4", "optimizer.name=muon", "fp8.recipe=tensorwise"})
    EXPECT_EQ(refusal(covered), "accepted");
}

}  // namespace
}  // namespace trireme
