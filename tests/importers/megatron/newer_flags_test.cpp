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

TEST(NewerFlags, NormsOfQueriesAndKeysDecay) {
  const std::string norms = "--qk-layernorm --normalization RMSNorm ";
  EXPECT_FALSE(config(norms).optimizer.decay_qk_norms);
  EXPECT_TRUE(config(norms + "--apply-wd-to-qk-layernorm").optimizer.decay_qk_norms);
  const std::string older = "--no-weight-decay-cond-type ";
  EXPECT_TRUE(config(norms + older + "apply_wd_to_qk_layernorm").optimizer.decay_qk_norms);
  EXPECT_THAT(refusal(norms + older + "other"), HasSubstr("'other' is not one of"));
  EXPECT_THAT(noted(translated("--apply-wd-to-qk-layernorm")),
              Contains("--apply-wd-to-qk-layernorm"));
}

TEST(NewerFlags, QueriesAndKeysAreClipped) {
  EXPECT_EQ(config("").optimizer.qk_clip_threshold, 0);
  EXPECT_EQ(config("--qk-clip").optimizer.qk_clip_threshold, 100);
  const OptimizerConfig given =
      config("--qk-clip --qk-clip-threshold 30 --qk-clip-alpha 0.4").optimizer;
  EXPECT_EQ(given.qk_clip_threshold, 30);
  EXPECT_EQ(given.qk_clip_alpha, 0.4);
  EXPECT_THAT(noted(translated("--qk-clip-threshold 30")), Contains("--qk-clip-threshold"));
  EXPECT_THAT(refusal("--qk-clip --qk-clip-threshold 0"), HasSubstr("is not above 0"));
  EXPECT_THAT(refusal("--qk-clip --qk-layernorm --normalization RMSNorm"),
              HasSubstr("--qk-layernorm undoes"));
}

TEST(NewerFlags, LearningRatesFollowTheWidth) {
  // 64 wide with 4 heads, here.
  const std::string sizes = "--hidden-size 64 --num-attention-heads 4 --use-mup ";
  const ModelConfig own = config(sizes).model;
  EXPECT_EQ(own.mup_base_hidden_size, 64);
  EXPECT_EQ(own.logit_multiplier, 1);
  EXPECT_EQ(own.attention_scale, 1.0 / 16);
  const std::string base = sizes + "--mup-base-hidden-size 16 ";
  EXPECT_EQ(config(base).model.logit_multiplier, 0.25);
  EXPECT_EQ(config(base + "--mup-output-mult 1.0").model.logit_multiplier, 0.25);
  EXPECT_EQ(config(base + "--mup-output-mult 2").model.logit_multiplier, 2);
  EXPECT_EQ(config(base + "--mup-embedding-mult 3").model.embedding_multiplier, 3);
  EXPECT_EQ(config(base + "--mup-base-head-dim 4").model.attention_scale, 2.0 / 16);
  EXPECT_EQ(config(base + "--mup-attn-scale-power 0.5").model.attention_scale, 0.25);
  EXPECT_THAT(noted(translated("--mup-base-hidden-size 16")), Contains("--mup-base-hidden-size"));
  EXPECT_THAT(noted(translated(base + "--mup-width-mult 7")), Contains("--mup-width-mult"));
  EXPECT_THAT(refusal(base + "--lr-warmup-init 1e-5"), HasSubstr("--lr-warmup-init"));
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
