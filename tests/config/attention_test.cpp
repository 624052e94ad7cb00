// Tests of rules for kinds of attention: each error names the keys and what they need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/refused.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

TEST(Attention, LayersWithAWindow) {
  const std::string window = "model.attention_window=64";
  EXPECT_EQ(refused({window, "model.window_layers=[0, 11]"}), "accepted");
  EXPECT_THAT(refused({"model.window_layers=[0]"}), HasSubstr("has no effect without"));
  EXPECT_THAT(refused({window, "model.window_layers=[12]"}), HasSubstr("the layers are 0 to 11"));
  EXPECT_THAT(refused({window, "model.window_layers=[3, 3]"}),
              HasSubstr("must be in ascending order"));
  EXPECT_EQ(refused({window, "model.window_chunks=true"}), "accepted");
  EXPECT_THAT(refused({"model.window_chunks=true"}),
              HasSubstr("has no effect without model.attention_window"));
}

TEST(Attention, QueriesThatGrowWithTheirPosition) {
  const std::string rope = "model.position=rope", layers = "model.no_rope_layers=[3]",
                    grow = "model.no_rope_query_beta=0.1", length = "model.no_rope_query_length=64";
  EXPECT_EQ(refused({rope, layers, grow, length}), "accepted");
  EXPECT_THAT(refused({rope, grow}), HasSubstr("has no effect without model.no_rope_layers"));
  EXPECT_THAT(refused({rope, layers, length}),
              HasSubstr("has no effect without model.no_rope_query_beta"));
}

TEST(Attention, NormsOfQueriesAndKeysWithoutWeights) {
  const std::string rope = "model.position=rope", norm = "model.qk_l2_norm=true";
  EXPECT_EQ(refused({rope, norm}), "accepted");
  EXPECT_THAT(refused({norm}), HasSubstr("requires model.position = \"rope\""));
  EXPECT_THAT(refused({rope, norm, "model.qk_norm=true"}),
              HasSubstr("conflicts with model.qk_norm"));
  EXPECT_THAT(refused({"model.family=llama", norm, "model.kv_lora_rank=64",
                       "model.qk_nope_head_dim=48", "model.qk_rope_head_dim=16"}),
              HasSubstr("model.qk_l2_norm"));
}

TEST(Attention, KindsOfLinearAttention) {
  const std::vector<std::string> mamba = {"model.linear_layers=[0]", "model.linear_kind=mamba2",
                                          "model.linear_key_heads=1", "model.linear_value_heads=4",
                                          "model.linear_key_head_dim=64"};
  const auto and_also = [&](const std::string& more) {
    std::vector<std::string> all = mamba;
    all.push_back(more);
    return all;
  };
  EXPECT_EQ(refused(and_also("model.linear_conv_bias=true")), "accepted");
  EXPECT_EQ(layout_refused(2, mamba), "accepted");
  EXPECT_THAT(refused(and_also("model.linear_kind=mamba")), HasSubstr("gated_delta_net, mamba2"));
  EXPECT_THAT(refused(and_also("run.device=cuda")), HasSubstr("model.linear_layers"));
  EXPECT_THAT(layout_refused(2, and_also("parallel.cp=2")), HasSubstr("model.linear_layers"));
  EXPECT_THAT(layout_refused(2, and_also("parallel.tp=2")), HasSubstr("model.linear_key_heads"));
  EXPECT_THAT(refused({"model.linear_kind=mamba2"}),
              HasSubstr("has no effect without model.linear_layers"));
  EXPECT_THAT(refused({"model.linear_conv_bias=true"}),
              HasSubstr("has no effect without model.linear_layers"));
}

TEST(Attention, LayersOfOnePart) {
  const std::string parts = "model.mlp_layers=[1, 3]";
  EXPECT_EQ(refused({parts}), "accepted");
  EXPECT_EQ(refused({parts, "moe.num_experts=4", "moe.layers=[3]"}), "accepted");
  EXPECT_EQ(layout_refused(2, {parts, "parallel.cp=2"}), "accepted");
  EXPECT_THAT(refused({"model.mlp_layers=[12]"}), HasSubstr("the layers are 0 to 11"));
  EXPECT_THAT(refused({"model.mlp_layers=[3, 1]"}), HasSubstr("must be in ascending order"));
  EXPECT_THAT(refused({parts, "model.mtp_layers=1", "model.position=rope"}),
              HasSubstr("model.mtp_layers = 1 conflicts with model.mlp_layers"));
  EXPECT_THAT(refused({parts, "model.norm_placement=both"}),
              HasSubstr("requires model.norm_placement = \"pre\", found \"both\""));
  EXPECT_THAT(refused({parts, "model.family=bert"}),
              HasSubstr("model.mlp_layers conflicts with model.family = \"bert\""));
  EXPECT_THAT(refused({parts, "moe.num_experts=4"}), HasSubstr("layer 0 is to have experts"));
  EXPECT_THAT(refused({parts, "model.position=rope", "model.no_rope_layers=[1]"}),
              HasSubstr("model.no_rope_layers contains layer 1, which model.mlp_layers makes"));
  EXPECT_THAT(refused({parts, "model.attention_window=8", "model.window_layers=[0, 3]"}),
              HasSubstr("model.window_layers contains layer 3, which model.mlp_layers makes"));
  EXPECT_THAT(refused({parts, "model.linear_layers=[3]", "model.linear_key_heads=1",
                       "model.linear_value_heads=1", "model.linear_key_head_dim=8"}),
              HasSubstr("model.linear_layers contains layer 3, which model.mlp_layers makes"));
}

}  // namespace
}  // namespace trireme
