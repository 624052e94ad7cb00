// Tests of rules about layouts: degrees against ranks and the model, schedules, derived sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/refused.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ValidateLayout, AcceptsWhatWorks) {
  EXPECT_EQ(layout_refused(1, {}), "accepted");
  EXPECT_EQ(layout_refused(16, {"parallel.tp=2", "parallel.pp=2"}), "accepted");
  EXPECT_EQ(layout_refused(2, {"parallel.pp=2", "parallel.stage_layers=[5, 7]"}), "accepted");
  EXPECT_EQ(layout_refused(3, {"parallel.pp=3", "parallel.schedule=zbv"}), "accepted");
  EXPECT_EQ(layout_refused(4, {"parallel.tp=4", "model.num_kv_heads=4"}), "accepted");
}

TEST(ValidateLayout, DegreesAgainstRanks) {
  EXPECT_THAT(layout_refused(8, {"parallel.tp=3"}),
              AllOf(HasSubstr("the 8 ranks"), HasSubstr("tp can be 1, 2, 4 or 8")));
  EXPECT_THAT(layout_refused(8, {"parallel.tp=4", "parallel.pp=4"}), HasSubstr("pp can be 1 or 2"));
  EXPECT_THAT(layout_refused(8, {"parallel.dp_replicate=3"}), HasSubstr("dp_replicate"));
  EXPECT_THAT(layout_refused(8, {"parallel.cp=3"}), HasSubstr("cp can be"));
  EXPECT_THAT(layout_refused(8, {"parallel.ep=3"}), HasSubstr("ep can be"));
  EXPECT_THAT(layout_refused(6, {"parallel.ep=4", "moe.num_experts=8", "model.bias=false"}),
              testing::EndsWith("ep can be 1 or 2"));
  EXPECT_THAT(layout_refused(1, {"parallel.ep=4", "moe.num_experts=8", "model.bias=false"}),
              HasSubstr("add --nproc 4"));
  EXPECT_THAT(layout_refused(8, {"parallel.expert_tp=3"}),
              HasSubstr("expert_tp can be 1, 2, 4 or 8"));
  EXPECT_THAT(layout_refused(8, {"parallel.ep=4", "parallel.expert_tp=4"}),
              HasSubstr("parallel.ep = 4 times expert_tp = 4 does not divide the 8 ranks"));
}

TEST(ValidateLayout, TensorParallelAgainstTheModel) {
  EXPECT_THAT(
      layout_refused(8, {"parallel.tp=8"}),
      HasSubstr("model.num_heads = 12 is not divisible by parallel.tp = 8: tp can be 4, 6 or 12"));
  EXPECT_THAT(layout_refused(6, {"parallel.tp=6", "model.num_kv_heads=4"}),
              AllOf(HasSubstr("model.num_kv_heads = 4"), HasSubstr("tp can be 2 or 4")));
  EXPECT_EQ(layout_refused(4, {"parallel.tp=4", "model.num_kv_heads=2"}), "accepted");
  EXPECT_EQ(layout_refused(12, {"parallel.tp=12", "model.num_kv_heads=1"}), "accepted");
  EXPECT_THAT(layout_refused(8, {"parallel.tp=4", "model.num_kv_heads=2", "parallel.cp=2",
                                 "parallel.cp_attention=ulysses"}),
              HasSubstr("the 1 key and value heads"));
  EXPECT_THAT(layout_refused(4, {"parallel.tp=4", "parallel.sequence_parallel=true",
                                 "curriculum.schedule=fixed_linear", "curriculum.min_length=8",
                                 "curriculum.length_step=2", "curriculum.iters=10",
                                 "train.micro_batch_size=1"}),
              HasSubstr("make curriculum.length_step a multiple of 4"));
  EXPECT_THAT(layout_refused(3, {"parallel.tp=3", "parallel.sequence_parallel=true"}),
              HasSubstr("model.seq_length = 1024"));
}

TEST(ValidateLayout, BlocksOfExactSums) {
  EXPECT_EQ(layout_refused(1, {"parallel.numerics=exact", "parallel.exact_block=256"}), "accepted");
  EXPECT_THAT(layout_refused(1, {"parallel.exact_block=256"}), HasSubstr("numerics = \"exact\""));
  EXPECT_THAT(layout_refused(1, {"parallel.numerics=exact", "parallel.exact_block=300"}),
              AllOf(HasSubstr("model.seq_length = 1024"), HasSubstr("can be 128, 256, 512")));
  EXPECT_THAT(layout_refused(1, {"parallel.numerics=exact", "parallel.exact_block=256",
                                 "curriculum.schedule=fixed_linear", "curriculum.min_length=64",
                                 "curriculum.length_step=64", "curriculum.iters=10"}),
              AllOf(HasSubstr("curriculum.length_step = 64"), HasSubstr("can be 32 or 64")));
  EXPECT_THAT(
      layout_refused(4, {"parallel.numerics=exact", "parallel.exact_block=512", "parallel.tp=4",
                         "parallel.sequence_parallel=true", "train.micro_batch_size=1"}),
      AllOf(HasSubstr("the 256 positions"), HasSubstr("can be 128 or 256")));
  EXPECT_THAT(refused({"model.family=bert", "parallel.exact_block=8", "parallel.numerics=exact"}),
              HasSubstr("parallel.exact_block"));
}

TEST(ValidateLayout, Stages) {
  EXPECT_THAT(layout_refused(8, {"parallel.pp=8"}),
              AllOf(HasSubstr("model.num_layers = 12"), HasSubstr("4, 6 or 12"),
                    HasSubstr("stage_layers")));
  EXPECT_THAT(layout_refused(4, {"parallel.pp=4", "parallel.schedule=vhalf"}),
              HasSubstr("8 stages"));
  EXPECT_THAT(layout_refused(2, {"parallel.pp=2", "parallel.stage_layers=[5, 5]"}),
              HasSubstr("model.num_layers = 12"));
  EXPECT_THAT(layout_refused(2, {"parallel.pp=2", "parallel.stage_layers=[12, 0]"}),
              HasSubstr("2 numbers of at least 1"));
  EXPECT_THAT(layout_refused(2, {"parallel.pp=2", "parallel.virtual_stages=2"}),
              HasSubstr("only interleaved"));
  EXPECT_THAT(layout_refused(2, {"parallel.pp=2", "parallel.schedule=interleaved"}),
              HasSubstr("requires 2 or more"));
}

// Without a pipeline there is one stage for any schedule; and a hint must be feasible.
TEST(ValidateLayout, StagesOfVShapedSchedules) {
  for (const char* schedule : {"parallel.schedule=zbv", "parallel.schedule=vhalf"}) {
    EXPECT_EQ(layout_refused(1, {schedule}), "accepted");
    EXPECT_EQ(layout_refused(1, {schedule, "parallel.stage_layers=[12]"}), "accepted");
    EXPECT_THAT(layout_refused(1, {schedule, "parallel.stage_layers=[6, 6]"}),
                HasSubstr("one pipeline stage must have 1 numbers"));
  }
  const std::string few =
      layout_refused(4, {"parallel.pp=4", "parallel.schedule=zbv", "model.num_layers=4"});
  EXPECT_THAT(few, AllOf(HasSubstr("too few for the 8 stages"),
                         testing::Not(HasSubstr("parallel.stage_layers"))));
  EXPECT_THAT(
      layout_refused(2, {"parallel.pp=2", "parallel.schedule=zbv", "parallel.virtual_stages=2"}),
      HasSubstr("always has 2 on each rank, so remove the key"));
}

TEST(ValidateLayout, BatchAgainstRanks) {
  EXPECT_THAT(layout_refused(3, {}),
              AllOf(HasSubstr("3 data-parallel ranks"), HasSubstr("24 or 36")));
  EXPECT_THAT(layout_refused(
                  4, {"train.iters=0", "train.samples=1000", "train.rampup_batch_size=[8,8,100]"}),
              HasSubstr("the first train.rampup_batch_size = 8"));
}

// As in Megatron, stages without work wait, also during batch size ramp-up.
TEST(ValidateLayout, FewerMicroBatchesThanStagesWork) {
  for (const char* schedule : {"gpipe", "1f1b", "zb1p"}) {
    EXPECT_EQ(layout_refused(4, {"parallel.pp=4", "train.global_batch_size=4",
                                 std::string("parallel.schedule=") + schedule}),
              "accepted");
  }
  EXPECT_EQ(layout_refused(4, {"parallel.pp=4", "train.iters=0", "train.samples=1000",
                               "train.rampup_batch_size=[8,8,100]"}),
            "accepted");
  EXPECT_THAT(layout_notes(valid_with({"parallel.pp=4", "train.global_batch_size=4"}), 4),
              testing::ElementsAre(HasSubstr("only 1 micro-batch per step for parallel.pp = ")));
}

TEST(ValidateLayout, NotesNameSettingsThatDoNothing) {
  EXPECT_THAT(layout_notes(valid_with({}), 8), testing::IsEmpty());
  EXPECT_THAT(layout_notes(valid_with({"parallel.zero=3", "parallel.dp_replicate=2"}), 2),
              testing::ElementsAre(HasSubstr("parallel.zero = 3 has no effect")));
  EXPECT_THAT(layout_notes(valid_with({"parallel.zero=1"}), 1),
              testing::ElementsAre(HasSubstr("one data-parallel rank")));
}

TEST(Layout, DerivedSizes) {
  const Config config = valid_with({"parallel.tp=2", "parallel.pp=2", "train.global_batch_size=0"});
  EXPECT_EQ(data_parallel_size(config.parallel, 16), 4);
  EXPECT_EQ(global_batch_size(config, 16), 16);
  EXPECT_EQ(global_batch_size(valid_with({}), 16), 32);
}

}  // namespace
}  // namespace trireme
