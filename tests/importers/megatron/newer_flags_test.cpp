// Tests flags of Megatron-Core 0.16 to 0.20, and flags with lists of values.
#include <gmock/gmock.h>

#include "importers/megatron/translated.h"

namespace trireme::megatron {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(NewerFlags, ListsEndAtTheNextFlag) {
  const Translation lists = translated(
      "--cuda-graph-modules attn moe_router --lazy-mpu-init --rl-inference-parsers "
      "--recompute-modules moe_act layernorm --high-priority-stream-groups dp_cp ep_dp --seed 7");
  EXPECT_EQ(to_config(lists).run.seed, 7);
  for (const char* flag : {"--cuda-graph-modules", "--lazy-mpu-init", "--rl-inference-parsers",
                           "--recompute-modules", "--high-priority-stream-groups"}) {
    EXPECT_THAT(noted(lists), Contains(flag));
  }
  const std::string experts = "--num-experts 4 --disable-bias-linear --moe-aux-loss-coeff ";
  EXPECT_EQ(
      config(experts + "0.5 --moe-router-load-balancing-type seq_aux_loss").model.moe.aux_loss,
      BalanceScope::sequence);
  EXPECT_THAT(refusal(experts + "1e-2 1e-3"), HasSubstr("only one load-balancing loss"));
  EXPECT_THAT(refusal(experts + "1e-2 --moe-router-load-balancing-type aux_loss global_aux_loss"),
              HasSubstr("--moe-router-load-balancing-type"));
  EXPECT_THAT(refusal(experts + "1e-2 --moe-router-load-balancing-type sinkhorn"),
              HasSubstr("'sinkhorn' is not one of"));
}

TEST(NewerFlags, OtherJobsAreNamed) {
  EXPECT_THAT(refusal("--perform-rl-step"), HasSubstr("reinforcement learning"));
  EXPECT_THAT(refusal("--vision-pretraining"), HasSubstr("vision"));
  EXPECT_THAT(refusal("--sft"), HasSubstr("fine-tuning"));
  EXPECT_THAT(refusal("--modelopt-enabled"), HasSubstr("ModelOpt"));
  const Translation others = translated(
      "--grpo-group-size 4 --no-rl-partial-rollouts --inference-max-requests 2 --img-h 32 "
      "--ict-head-size 128");
  for (const Note& note : others.notes) {
    if (note.flag == "--save") continue;
    EXPECT_THAT(note.text, HasSubstr("belongs to")) << note.flag;
  }
  EXPECT_EQ(others.notes.size(), 6u);  // and where checkpoints go
}

TEST(NewerFlags, EvaluationsOfAnotherBatchHaveTheSameSamples) {
  const std::string batch = "--global-batch-size 8 --eval-iters 10 --eval-global-batch-size ";
  EXPECT_EQ(config(batch + "16").train.eval_iters, 20);
  EXPECT_EQ(config(batch + "4").train.eval_iters, 5);
  EXPECT_THAT(refusal(batch + "7"), HasSubstr("--eval-global-batch-size"));
  EXPECT_THAT(refusal("--eval-global-batch-size 8"), HasSubstr("--eval-global-batch-size"));
}

TEST(NewerFlags, TheNullTokenizersLastTokenEndsDocuments) {
  const std::string null = "--tokenizer-type NullTokenizer --vocab-size 100 ";
  EXPECT_EQ(config(null).model.vocab_size, 101);
  EXPECT_THAT(noted(translated(null)), Contains("--vocab-size"));
  EXPECT_EQ(config(null + "--null-tokenizer-eod-id 99").model.vocab_size, 100);
  EXPECT_THAT(refusal(null + "--null-tokenizer-eod-id 0"), HasSubstr("--null-tokenizer-eod-id"));
  EXPECT_THAT(refusal(null + "--null-tokenizer-pad-id 5"), HasSubstr("--null-tokenizer-pad-id"));
}

TEST(NewerFlags, MasksBetweenDocumentsAreAgreedTo) {
  const std::string flag = "--dataloader-inter-document-masking ";
  EXPECT_THAT(refusal(flag), HasSubstr("to confirm, add data.reset_attention_mask=true"));
  const DataConfig data = config(flag + "data.reset_attention_mask=true").data;
  EXPECT_TRUE(data.reset_attention_mask && data.reset_position_ids);
}

}  // namespace
}  // namespace trireme::megatron
