// Mixtures of experts: Megatron-LM's flags, and with --deepspeed Megatron-DeepSpeed's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "importers/megatron/translated.h"

namespace trireme::megatron {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string mixtral =
    "--disable-bias-linear --swiglu --num-experts 8 --moe-router-topk 2 "
    "--moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2 --moe-grouped-gemm ";

TEST(Experts, OfMixtral) {
  const ExpertConfig moe =
      config(mixtral + "--moe-ffn-hidden-size 96 --moe-z-loss-coeff 1e-3").model.moe;
  EXPECT_EQ(moe.num_experts, 8);
  EXPECT_EQ(moe.top_k, 2);
  EXPECT_EQ(moe.ffn_hidden_size, 96);
  EXPECT_EQ(moe.score, RouterScore::softmax);
  EXPECT_TRUE(moe.normalize_weights);
  EXPECT_EQ(moe.aux_loss, BalanceScope::batch);
  EXPECT_EQ(moe.aux_loss_coeff, 0.01);
  EXPECT_EQ(moe.z_loss_coeff, 0.001);
  EXPECT_EQ(moe.capacity_factor, 0);
}

TEST(Experts, AreCutLikeOtherLayersWhereNothingIsSaid) {
  const std::string flags = mixtral + "--tensor-model-parallel-size 4 --sequence-parallel ";
  EXPECT_EQ(config(mixtral).parallel.expert_tp, 1);
  EXPECT_EQ(config(flags).parallel.expert_tp, 4);
  EXPECT_EQ(config(flags + "--expert-tensor-parallel-size 1 ").parallel.expert_tp, 1);
  EXPECT_EQ(config(flags + "--expert-tensor-parallel-size 2 ").parallel.expert_tp, 2);
  const std::string fp8 = "--fp8-format hybrid --fp8-recipe tensorwise ";
  EXPECT_EQ(config(flags + fp8).parallel.expert_tp, 1);
  EXPECT_THAT(noted(translated(flags + fp8)), Contains("--fp8-format"));
  EXPECT_THAT(noted(translated("--expert-tensor-parallel-size 2 ")),
              Contains("--expert-tensor-parallel-size"));
}

TEST(Experts, OfDeepSeek) {
  const ExpertConfig moe =
      config(
          "--disable-bias-linear --num-experts 64 --moe-router-topk 4 --moe-layer-freq "
          "([0]*1+[1]*3) --num-layers 4 --moe-shared-expert-intermediate-size 64 "
          "--moe-router-score-function sigmoid --moe-router-topk-scaling-factor 2.5 "
          "--moe-router-num-groups 8 --moe-router-group-topk 4 --moe-router-enable-expert-bias "
          "--moe-router-bias-update-rate 1e-3 --moe-router-load-balancing-type seq_aux_loss "
          "--moe-aux-loss-coeff 1e-4")
          .model.moe;
  EXPECT_THAT(moe.layers, ElementsAre(1, 2, 3));
  EXPECT_EQ(moe.score, RouterScore::sigmoid);
  EXPECT_EQ(moe.scaling_factor, 2.5);
  EXPECT_EQ(moe.num_groups, 8);
  EXPECT_EQ(moe.top_groups, 4);
  EXPECT_TRUE(moe.expert_bias);
  EXPECT_EQ(moe.bias_update_rate, 0.001);
  EXPECT_EQ(moe.aux_loss, BalanceScope::sequence);
  EXPECT_EQ(moe.shared_ffn_hidden_size, 64);
}

TEST(Experts, BiasesOfSoftmaxRoutersAreRefusedAsInMegatron) {
  EXPECT_THAT(refusal(mixtral + "--moe-router-enable-expert-bias"),
              AllOf(HasSubstr("--moe-router-enable-expert-bias"), HasSubstr("sigmoid")));
}

TEST(Experts, LayersAreANumberOrAList) {
  EXPECT_EQ(config(mixtral + "--moe-layer-freq 2 --num-layers 4").model.moe.layer_interval, 2);
  EXPECT_THAT(config(mixtral + "--moe-layer-freq [0,1]*2 --num-layers 4").model.moe.layers,
              ElementsAre(1, 3));
  EXPECT_THAT(refusal(mixtral + "--moe-layer-freq [0,1"), HasSubstr("--moe-layer-freq"));
  EXPECT_THAT(refusal(mixtral + "--moe-layer-freq [0]*4"), HasSubstr("no layer with experts"));
  EXPECT_THAT(refusal(mixtral + "--moe-layer-freq [0,1] --num-layers 4"),
              HasSubstr("the list has 2 entries, but --num-layers is 4"));
}

// What megatron-core's router computes: pre-softmax and groups as its topk_routing has them.
TEST(Experts, RoutersThatIgnoreAFlag) {
  const std::string sigmoid = mixtral + "--moe-router-score-function sigmoid ";
  const std::string before = "--moe-router-pre-softmax ";
  EXPECT_FALSE(config(mixtral + before).model.moe.normalize_weights);
  EXPECT_TRUE(config(sigmoid + before).model.moe.normalize_weights);
  EXPECT_THAT(noted(translated(sigmoid + before)), Contains("--moe-router-pre-softmax"));
  EXPECT_EQ(config(mixtral + "--moe-router-num-groups 4").model.moe.num_groups, 1);
  EXPECT_THAT(noted(translated(mixtral + "--moe-router-num-groups 4")),
              Contains("--moe-router-num-groups"));
  const ExpertConfig all =
      config(mixtral + "--moe-router-num-groups 4 --moe-router-group-topk 4").model.moe;
  EXPECT_EQ(all.num_groups, 1);
}

TEST(Experts, RoutersThatCannotBeCarriedOver) {
  const std::string groups = mixtral + "--moe-router-num-groups 4 --moe-router-group-topk ";
  EXPECT_THAT(refusal(mixtral + "--moe-router-group-topk 2"), HasSubstr("--moe-router-num-groups"));
  EXPECT_THAT(refusal(groups + "1"), HasSubstr("sums of logits"));
  EXPECT_EQ(config(groups + "2").model.moe.top_groups, 2);
  EXPECT_EQ(config(groups + "1 --moe-router-pre-softmax").model.moe.top_groups, 1);
  EXPECT_THAT(refusal(mixtral + "--moe-router-topk 1"), HasSubstr("add --moe-router-pre-softmax"));
  EXPECT_EQ(
      config(mixtral + "--moe-router-topk 1 --moe-router-score-function sigmoid").model.moe.top_k,
      1);
}

TEST(Experts, DropsArePerSequenceWhereTheUserAgrees) {
  const std::string drops = mixtral + "--moe-expert-capacity-factor 1.25 ";
  EXPECT_THAT(refusal(drops), HasSubstr("to confirm, add moe.capacity_factor=1.25"));
  EXPECT_THAT(noted(translated(drops + "--micro-batch-size 1")),
              Not(Contains("--moe-expert-capacity-factor")));
  const std::string more = drops + "moe.capacity_factor=1.25 --moe-token-drop-policy ";
  const ExpertConfig moe = config(more + "position").model.moe;
  EXPECT_EQ(moe.capacity_factor, 1.25);
  EXPECT_EQ(moe.drop_policy, DropPolicy::position);
  EXPECT_EQ(config(more + "probs").model.moe.drop_policy, DropPolicy::weight);
  EXPECT_THAT(noted(translated(more + "probs")), Contains("--moe-expert-capacity-factor"));
  EXPECT_EQ(config(mixtral + "--moe-expert-capacity-factor -1").model.moe.capacity_factor, 0);
}

TEST(Experts, OfMegatronDeepSpeed) {
  const std::string plain = "--deepspeed --disable-bias-linear --num-experts 8 --num-layers 4 ";
  const std::string more = plain + "moe.capacity_factor=1.0 ";
  const ExpertConfig moe = config(more + "--moe-loss-coeff 0.01").model.moe;
  EXPECT_EQ(moe.top_k, 1);
  EXPECT_EQ(moe.first_layer, 1);
  EXPECT_EQ(moe.layer_interval, 2);
  EXPECT_FALSE(moe.normalize_weights);
  EXPECT_EQ(moe.aux_loss_coeff, 0.01);
  EXPECT_EQ(moe.capacity_factor, 1.0);
  const std::string none_dropped = plain + "--disable-moe-token-dropping ";
  EXPECT_EQ(config(none_dropped).model.moe.capacity_factor, 0);
  EXPECT_THAT(refusal(plain), HasSubstr("add --disable-moe-token-dropping"));
  EXPECT_THAT(refusal(none_dropped + "--topk 2"), HasSubstr("to confirm, add moe.top_k=2"));
  EXPECT_TRUE(config(none_dropped + "--topk 2 moe.top_k=2").model.moe.normalize_weights);
  EXPECT_THAT(refusal(more + "--moe-min-capacity 1000000"), HasSubstr("--moe-min-capacity"));
  EXPECT_EQ(config(none_dropped + "--moe-min-capacity 1000000").model.moe.capacity_factor, 0);
}

// A run of 1.3 billion parameters with 128 experts in every second layer, as Megatron-DeepSpeed's
// example starts it: sizes, lengths and flags.
const std::string moe_128 =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 8 --global-batch-size 512 --train-iters "
    "400000 --train-tokens 300000000000 --lr-decay-tokens 300000000000 --lr-warmup-tokens "
    "375000000 --lr 1.2e-4 --min-lr 1.0e-6 --lr-decay-style cosine --init-method-std 0.014 "
    "--weight-decay 0.1 --clip-grad 1.0 --adam-beta1 0.9 --adam-beta2 0.95 --hysteresis 2 --fp16 "
    "--tensor-model-parallel-size 1 --moe-expert-parallel-size 64 --num-experts 128 "
    "--moe-loss-coeff 0.01 --moe-train-capacity-factor 1.0 --moe-eval-capacity-factor 1.0 "
    "--moe-min-capacity 4 --create-moe-param-group --checkpoint-activations "
    "--override-opt_param-scheduler --split 98,2,0 --data-impl mmap --num-workers 0 "
    "--exit-duration-in-mins 30000000 --log-interval 10 --eval-interval 100 --eval-iters 10 "
    "--save-interval 10000 --save out --load out --tensorboard-dir logs --tensorboard-queue-size 1 "
    "--log-timers-to-tensorboard --log-batch-size-to-tensorboard "
    "--log-validation-ppl-to-tensorboard --deepspeed --pipeline-model-parallel-size 1 "
    "--no-pipeline-parallel --deepspeed-activation-checkpointing ";

// What the user has agreed to: no biases in experts, and whole sequences where tokens are dropped.
const std::string yes_to_128 = "model.bias=true moe.capacity_factor=1.0 ";

TEST(Experts, OfTheScriptFor128) {
  EXPECT_THAT(refusal(moe_128), AllOf(HasSubstr("--num-experts: in Trireme experts have no biases"),
                                      HasSubstr("add --disable-bias-linear"),
                                      HasSubstr("to confirm, add model.bias=true")));
  EXPECT_THAT(refusal(moe_128 + "model.bias=true"), HasSubstr("keeps tokens at random"));
  const Config run = config(moe_128 + yes_to_128);
  EXPECT_EQ(run.model.moe.num_experts, 128);
  EXPECT_EQ(run.model.moe.top_k, 1);
  EXPECT_EQ(run.model.moe.capacity_factor, 1);
  EXPECT_EQ(run.model.moe.aux_loss_coeff, 0.01);
  EXPECT_EQ(run.model.moe.first_layer, 1);
  EXPECT_EQ(run.model.moe.layer_interval, 2);
  EXPECT_FALSE(run.model.moe.residual);
  EXPECT_EQ(run.parallel.ep, 64);
  EXPECT_TRUE(run.model.bias);  // of all layers but the experts
  EXPECT_EQ(run.optimizer.decay_tokens, 300000000000);
  EXPECT_THAT(noted(translated(moe_128 + yes_to_128)), Contains("--num-experts"));
  EXPECT_NO_THROW(validate_layout(run, 64));
}

TEST(Experts, OfDeepSpeedAreCutOnRequest) {
  const std::string flags =
      "--deepspeed --disable-bias-linear --num-experts 8 "
      "--tensor-model-parallel-size 2 --sequence-parallel "
      "--disable-moe-token-dropping ";
  EXPECT_EQ(config(flags).parallel.expert_tp, 1);
  EXPECT_EQ(config(flags + "--enable-expert-tensor-parallelism ").parallel.expert_tp, 2);
}

TEST(Experts, ResidualOnesAreMixedWithAnMlpOfTheirWidth) {
  const ExpertConfig moe = config(moe_128 + yes_to_128 + "--mlp-type residual").model.moe;
  EXPECT_TRUE(moe.residual);
  EXPECT_EQ(moe.shared_ffn_hidden_size, 4 * 2048);
  EXPECT_EQ(config(moe_128 + yes_to_128 + "--mlp-type standard").model.moe.shared_ffn_hidden_size,
            0);
}

TEST(Experts, AListHasANumberForEachLayerWithThem) {
  const std::string more =
      "--deepspeed --disable-bias-linear --disable-moe-token-dropping --num-layers 4 "
      "--num-experts ";
  EXPECT_EQ(config(more + "8 8").model.moe.num_experts, 8);
  EXPECT_TRUE(config(more + "8 8").model.moe.experts_by_layer.empty());
  const ExpertConfig pyramid = config(more + "8 16").model.moe;
  EXPECT_EQ(pyramid.experts_by_layer, (std::vector<std::int64_t>{8, 16}));
  EXPECT_EQ(pyramid.num_experts, 16);
  EXPECT_EQ(pyramid.experts_in(1), 8);
  EXPECT_EQ(pyramid.experts_in(2), 0);
  EXPECT_EQ(pyramid.experts_in(3), 16);
  EXPECT_THAT(refusal(more + "1 16"), HasSubstr("a layer with one expert is dense"));
  EXPECT_THAT(refusal(more + "8 16 16"), HasSubstr("has 3 numbers"));
}

TEST(Experts, ABalanceOverTheBatchLooksBack) {
  const std::string more =
      "--disable-bias-linear --swiglu --num-experts 8 --moe-aux-loss-coeff "
      "1e-2 --moe-router-load-balancing-type global_aux_loss";
  EXPECT_THAT(refusal(more), HasSubstr("to confirm, add moe.aux_loss=\"global\""));
  const std::string all = more + " moe.aux_loss=global";
  EXPECT_EQ(config(all).model.moe.aux_loss, BalanceScope::global);
  EXPECT_THAT(noted(translated(all)), Contains("--moe-router-load-balancing-type"));
}

TEST(LatentAttention, HasMegatronsWidths) {
  const std::string norms =
      "--multi-latent-attention --disable-bias-linear --normalization RMSNorm ";
  const std::string latent = norms + "--qk-layernorm --position-embedding-type rope ";
  const ModelConfig plain = config(latent).model;
  EXPECT_EQ(plain.kv_lora_rank, 32);
  EXPECT_EQ(plain.q_lora_rank, 0);
  EXPECT_EQ(plain.head_dim, 128 + 64);
  EXPECT_EQ(plain.v_head_dim, 128);
  EXPECT_EQ(plain.position, PositionEncoding::rope);
  EXPECT_EQ(plain.rope_scaling, RopeScaling::none);
  EXPECT_EQ(plain.attention_scale, 0);
  const ModelConfig scaled =
      config(latent +
             "--q-lora-rank 24 --kv-lora-rank 16 --qk-head-dim 12 --qk-pos-emb-head-dim 4 "
             "--v-head-dim 8 --rotary-scaling-factor 40 --mscale 1.0 --mscale-all-dim 1.0")
          .model;
  EXPECT_EQ(scaled.q_lora_rank, 24);
  EXPECT_EQ(scaled.rope_scaling, RopeScaling::yarn);
  EXPECT_EQ(scaled.rope_original_length, 4096);
  EXPECT_EQ(scaled.rope_attention_factor, 1);
  const double mscale = 0.1 * std::log(40.0) + 1;
  EXPECT_NEAR(scaled.attention_scale, mscale * mscale / 4, 1e-12);
  EXPECT_THAT(refusal(norms + "--position-embedding-type rope"), HasSubstr("add --qk-layernorm"));
  EXPECT_THAT(noted(translated("--kv-lora-rank 16")), Contains("--kv-lora-rank"));
}

TEST(LatentAttention, HasNoPositionsButItsOwn) {
  const std::string latent =
      "--multi-latent-attention --disable-bias-linear --normalization RMSNorm --qk-layernorm ";
  EXPECT_THAT(refusal(latent), HasSubstr("learned positions to the rotary ones"));
  EXPECT_THAT(refusal(latent + "--position-embedding-type learned_absolute"),
              HasSubstr("--position-embedding-type: Megatron then adds learned"));
  EXPECT_THAT(noted(translated(latent + "--position-embedding-type none")),
              Contains("--position-embedding-type"));
  const std::string rope = latent + "--position-embedding-type rope ";
  EXPECT_THAT(refusal(rope + "--rotary-scaling-factor 0.5"), HasSubstr("0.5 is below 1"));
  const std::vector<std::string> said = noted(translated(
      rope +
      "--use-rope-scaling --rotary-seq-len-interpolation-factor 2 --add-qkv-bias --mscale 2"));
  for (const char* flag : {"--use-rope-scaling", "--rotary-seq-len-interpolation-factor",
                           "--add-qkv-bias", "--mscale"})
    EXPECT_THAT(said, Contains(flag));
  EXPECT_FALSE(config(rope + "--add-qkv-bias").model.qkv_bias);
}

TEST(Windows, OfSomeLayers) {
  const std::string window = "--num-layers 4 --window-size 7,0 --window-attn-skip-freq ";
  EXPECT_THAT(config(window + "2").model.window_layers, ElementsAre(0, 2));
  EXPECT_THAT(config(window + "[1,1,0,1]").model.window_layers, ElementsAre(0, 1, 3));
  EXPECT_TRUE(config(window + "[1]*4").model.window_layers.empty());
  EXPECT_EQ(config(window + "1").model.attention_window, 0);
  EXPECT_THAT(refusal(window + "[1,0]"), HasSubstr("--window-attn-skip-freq"));
}

TEST(Positions, OfSomeLayers) {
  const std::string some = "--num-layers 4 --position-embedding-type rope --no-rope-freq ";
  EXPECT_THAT(config(some + "4").model.no_rope_layers, ElementsAre(3));
  EXPECT_THAT(config(some + "([0]+[1])*2").model.no_rope_layers, ElementsAre(1, 3));
  EXPECT_TRUE(config(some + "0").model.no_rope_layers.empty());
  EXPECT_THAT(refusal(some + "3"), HasSubstr("not a multiple of 3"));
  // As long as they are written, and longer than any model.
  EXPECT_THAT(refusal(some + "[]*9000000000000000000"), HasSubstr("--no-rope-freq"));
  EXPECT_THAT(refusal(some + "[0,1,0,1]*4611686018427387904"), HasSubstr("--no-rope-freq"));
  EXPECT_THAT(refusal(some + "[1,0]"), HasSubstr("--no-rope-freq"));
  EXPECT_THAT(refusal("--num-layers 4 --no-rope-freq 2"), HasSubstr("type rope"));
}

TEST(Experts, RanksThatShareThem) {
  EXPECT_EQ(config(mixtral + "--expert-model-parallel-size 4").parallel.ep, 4);
  EXPECT_EQ(config("--deepspeed --disable-bias-linear --num-experts 8 --num-layers 4 "
                   "--disable-moe-token-dropping --moe-expert-parallel-size 2")
                .parallel.ep,
            2);
  EXPECT_EQ(config(mixtral).parallel.ep, 1);
}

TEST(Experts, WithoutThemTheirFlagsAreNoted) {
  EXPECT_THAT(noted(translated("--moe-router-topk 4")), Contains("--moe-router-topk"));
  EXPECT_EQ(config("--moe-router-topk 4").model.moe.num_experts, 0);
}

}  // namespace
}  // namespace trireme::megatron
