// Tests of rules across keys: each error names the keys, their values and values that would work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/refused.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Attention compares positions as fp32 numbers, which are exact up to 2^24.
TEST(Validate, PositionsAreBounded) {
  EXPECT_EQ(refused({"model.seq_length=16777216"}), "accepted");
  for (const char* key : {"model.seq_length", "model.max_positions"}) {
    EXPECT_THAT(refused({fmt::format("{}=16777217", key)}),
                AllOf(HasSubstr(key), HasSubstr("16777216")));
  }
}

// Pruning and background saves could remove the checkpoints that these features resume from.
TEST(Validate, CheckpointsToGoOnFromStay) {
  const auto back = [](const char* keep) {
    return refused({"train.spike_policy=back", "checkpoint.interval=10", keep});
  };
  EXPECT_EQ(back("checkpoint.keep=0"), "accepted");
  EXPECT_THAT(back("checkpoint.keep=9"),
              AllOf(HasSubstr("checkpoint.keep = 9"), HasSubstr("use \"skip\"")));
  EXPECT_THAT(refused({"checkpoint.local_dir=/tmp/local", "checkpoint.local_interval=2",
                       "checkpoint.async=true"}),
              HasSubstr("conflicts with checkpoint.async"));
  EXPECT_THAT(refused({"checkpoint.local_copies=1"}),
              AllOf(HasSubstr("checkpoint.local_copies = 1"), HasSubstr("checkpoint.local_dir")));
  EXPECT_EQ(refused({"checkpoint.local_copies=1", "checkpoint.local_dir=/tmp/local",
                     "checkpoint.local_interval=2"}),
            "accepted");
}

TEST(Validate, PortableNumbersAreThoseOfTheCpu) {
  EXPECT_EQ(refused({"parallel.numerics=portable"}), "accepted");
  for (const char* device : {"emulated", "cuda"}) {
    EXPECT_THAT(refused({"parallel.numerics=portable", std::string("run.device=") + device}),
                AllOf(HasSubstr("\"portable\""), HasSubstr(device)));
  }
  EXPECT_THAT(refused({"parallel.numerics=portable", "run.precision=fp64"}),
              AllOf(HasSubstr("\"portable\""), HasSubstr("fp64")));
  EXPECT_THAT(refused({"parallel.numerics=portable", "model.family=llama",
                       "model.linear_layers=[0]", "model.linear_key_heads=2",
                       "model.linear_value_heads=2", "model.linear_key_head_dim=16"}),
              AllOf(HasSubstr("\"portable\""), HasSubstr("model.linear_layers")));
}

TEST(Validate, AcceptsWhatWorks) {
  EXPECT_EQ(refused({}), "accepted");
  EXPECT_EQ(refused({"model.family=llama", "model.num_kv_heads=4"}), "accepted");
  EXPECT_EQ(refused({"train.iters=0", "train.samples=10000", "train.rampup_batch_size=[8,8,1000]",
                     "optimizer.warmup_samples=100", "optimizer.decay_samples=5000"}),
            "accepted");
  EXPECT_EQ(refused({"optimizer.decay_style=wsd", "optimizer.wsd_decay_iters=100"}), "accepted");
  EXPECT_EQ(refused({"model.head_dim=96"}), "accepted");
  EXPECT_EQ(refused({"model.num_heads=5", "model.head_dim=128"}), "accepted");
}

TEST(Validate, MissingSizesAreNamedTogether) {
  EXPECT_EQ(
      refusal_of([] { validate(parse_config("[model]\nnum_heads = 1\n", "t")); }),
      "[model] is missing num_layers, hidden_size, seq_length: set them to a positive number");
}

TEST(Validate, Heads) {
  EXPECT_THAT(refused({"model.num_heads=10"}),
              AllOf(HasSubstr("model.hidden_size = 768"), HasSubstr("model.num_heads = 10"),
                    HasSubstr("6, 8, 12 or 16")));
  EXPECT_THAT(refused({"model.num_heads=10", "model.head_dim=0"}), HasSubstr("6, 8, 12 or 16"));
  EXPECT_THAT(refused({"model.num_kv_heads=5"}), HasSubstr("num_kv_heads can be 3, 4, 6 or 12"));
  EXPECT_THAT(refused({"model.num_kv_heads=24"}), HasSubstr("num_kv_heads can be 6 or 12"));
  EXPECT_THAT(refused({"model.position=rope", "model.rope_percent=0.02"}), HasSubstr("even"));
}

TEST(Validate, AbsurdSizes) {
  EXPECT_THAT(refused({"model.hidden_size=12000000", "model.num_heads=100000"}),
              HasSubstr("parameters, but at most 1e+14"));
  EXPECT_THAT(refused({"model.num_layers=100000", "train.micro_batch_size=2000000",
                       "train.global_batch_size=0"}),
              HasSubstr("activations exceed the supported maximum of 1e+14"));
  const std::vector<std::string> experts = {"moe.num_experts=1024", "moe.top_k=1024"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), experts.begin(), experts.end());
    return refused(more);
  };
  EXPECT_THAT(with({"moe.ffn_hidden_size=16000000", "model.num_layers=100"}),
              AllOf(HasSubstr("parameters, but at most 1e+14"), HasSubstr("sizes of [moe]")));
  EXPECT_THAT(with({"moe.ffn_hidden_size=100000", "train.micro_batch_size=1024"}),
              HasSubstr("x moe.top_k x moe.ffn_hidden_size x"));
  EXPECT_THAT(with({"moe.ffn_hidden_size=1", "train.micro_batch_size=4096"}),
              HasSubstr("use a micro_batch_size of at most"));
  EXPECT_THAT(refused({"model.family=llama", "model.kv_lora_rank=16000000",
                       "model.q_lora_rank=16000000", "model.qk_nope_head_dim=128",
                       "model.qk_rope_head_dim=64", "model.num_layers=10000"}),
              AllOf(HasSubstr("at most 1e+14"), HasSubstr("kv_lora_rank")));
}

TEST(Validate, KeysThatWouldDoNothing) {
  EXPECT_THAT(refused({"parallel.recompute_layers=2"}), HasSubstr("recompute = \"full\", found"));
  EXPECT_EQ(refused({"parallel.recompute_layers=2", "parallel.recompute=full"}), "accepted");
  EXPECT_THAT(refused({"run.dir="}), HasSubstr("run.dir is empty"));
  for (const char* key : {"top_k=4",
                          "ffn_hidden_size=8",
                          "first_layer=1",
                          "layer_interval=2",
                          "layers=[1]",
                          "score=sigmoid",
                          "normalize_weights=false",
                          "scaling_factor=2",
                          "num_groups=2",
                          "top_groups=2",
                          "expert_bias=true",
                          "bias_update_rate=0.1",
                          "shared_ffn_hidden_size=8",
                          "shared_gate=true",
                          "residual=true",
                          "aux_loss=batch",
                          "aux_loss_coeff=0.1",
                          "z_loss_coeff=0.1",
                          "capacity_factor=2",
                          "drop_policy=position"}) {
    EXPECT_THAT(refused({std::string("moe.") + key}),
                HasSubstr("has no effect without moe.num_experts"));
  }
}

TEST(Validate, NormsOverAllHeads) {
  const std::string over = "model.qk_norm_over=all_heads", on = "model.qk_norm=true";
  EXPECT_THAT(refused({over}), HasSubstr("has no effect without model.qk_norm"));
  EXPECT_EQ(refused({over, on}), "accepted");
  EXPECT_EQ(refused({over, on, "parallel.tp=2"}), "accepted");
}

TEST(Validate, SoftCaps) {
  const std::string scores = "model.attention_soft_cap=50", logits = "model.logit_soft_cap=30";
  const std::string gpu = "run.device=cuda", bert = "model.family=bert";
  EXPECT_EQ(refused({scores, logits}), "accepted");
  EXPECT_EQ(refused({logits, gpu}), "accepted");
  EXPECT_THAT(refused({"model.logit_soft_cap=1e-40"}), HasSubstr("at least 0.001"));
  EXPECT_EQ(refused({scores, gpu}), "accepted");
  EXPECT_THAT(refused({scores, "model.position=alibi"}), HasSubstr("model.position = \"alibi\""));
  EXPECT_THAT(refused({logits, bert}), HasSubstr("remove them"));
  EXPECT_EQ(refused({"model.norm_placement=both"}), "accepted");
  EXPECT_THAT(refused({"model.norm_placement=both", bert}), HasSubstr("use pre or post"));
}

TEST(Validate, WhatOnlyTheCpuComputes) {
  EXPECT_EQ(refused({"run.precision=fp64"}), "accepted");
  EXPECT_THAT(refused({"run.precision=fp64", "run.device=cuda"}),
              HasSubstr("requires run.device = \"cpu\""));
}

TEST(Validate, ModelsOfFamiliesThatHaveNoPlaceForThem) {
  for (const char* key : {"model.position=alibi", "model.activation=geglu",
                          "model.zero_centered_norms=true", "model.scale_embedding=true"}) {
    EXPECT_EQ(refused({key}), "accepted");
    EXPECT_EQ(refused({key, "run.device=cuda"}), "accepted");
  }
  EXPECT_THAT(refused({"model.family=bert", "model.position=alibi"}),
              HasSubstr("is bidirectional"));
  EXPECT_THAT(refused({"model.family=bert", "model.embedding_norm=true"}), HasSubstr("remove it"));
}

TEST(Validate, WidthsOfLatentAttention) {
  const std::vector<std::string> latent = {"model.family=llama", "model.kv_lora_rank=64",
                                           "model.qk_nope_head_dim=48",
                                           "model.qk_rope_head_dim=16"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = latent;
    all.insert(all.end(), more.begin(), more.end());
    return refused(all);
  };
  EXPECT_EQ(with({}), "accepted");
  EXPECT_EQ(valid_with(latent).model.head_dim, 64);
  EXPECT_EQ(valid_with(latent).model.v_head_dim, 48);
  EXPECT_THAT(with({"model.qk_rope_head_dim=15"}), HasSubstr("an even model.qk_rope_head_dim"));
  EXPECT_THAT(with({"model.head_dim=128"}), HasSubstr("remove head_dim"));
  EXPECT_THAT(with({"model.v_head_dim=65"}), HasSubstr("use at most that"));
  EXPECT_THAT(with({"model.num_kv_heads=4"}), HasSubstr("model.num_kv_heads"));
  EXPECT_THAT(with({"model.position=learned"}), HasSubstr("model.position = \"rope\""));
  EXPECT_THAT(with({"model.qk_norm=true"}), HasSubstr("model.qk_norm"));
  EXPECT_EQ(with({"run.device=cuda"}), "accepted");
  EXPECT_THAT(with({"fp8.recipe=tensorwise"}), HasSubstr("model.kv_lora_rank"));
  EXPECT_THAT(refused({"model.v_head_dim=64"}),
              HasSubstr("has no effect without model.kv_lora_rank"));
  EXPECT_THAT(refused({"model.family=bert", "model.kv_lora_rank=64", "model.qk_nope_head_dim=48",
                       "model.qk_rope_head_dim=16"}),
              HasSubstr("model.kv_lora_rank"));
}

TEST(Validate, LayersWithOtherPositions) {
  const std::string rope = "model.position=rope", window = "model.attention_window=64";
  EXPECT_EQ(refused({rope, "model.no_rope_layers=[3, 7, 11]"}), "accepted");
  EXPECT_THAT(refused({rope, "model.no_rope_layers=[12]"}), HasSubstr("the layers are 0 to 11"));
  EXPECT_THAT(refused({rope, "model.no_rope_layers=[3, 1]"}),
              HasSubstr("must be in ascending order"));
  EXPECT_THAT(refused({"model.no_rope_layers=[3]"}),
              HasSubstr("requires model.position = \"rope\""));
  EXPECT_THAT(refused({"model.family=bert", rope, "model.no_rope_layers=[3]"}),
              HasSubstr("model.family = \"bert\""));
  EXPECT_EQ(refused({rope, window, "model.rope_base_local=1e4"}), "accepted");
  EXPECT_THAT(refused({rope, "model.rope_base_local=1e4"}), HasSubstr("there are none"));
  EXPECT_THAT(refused({window, "model.rope_base_local=1e4"}), HasSubstr("\"rope\", found"));
  EXPECT_THAT(refused({"model.rope_query_beta=0.1"}), HasSubstr("\"rope\", found"));
  EXPECT_THAT(refused({"model.zero_centered_qk_norms=true"}),
              HasSubstr("has no effect without model.qk_norm"));
}

TEST(Validate, PlacesOfNormsAndWindowsGoWithFamilies) {
  EXPECT_EQ(refused({"model.norm_placement=output", "model.attention_window=5"}), "accepted");
  EXPECT_THAT(refused({"model.norm_placement=post"}), HasSubstr("use pre, output or both"));
  const std::string bert = "model.family=bert";
  EXPECT_THAT(refused({bert, "model.norm_placement=output"}), HasSubstr("use pre or post"));
  EXPECT_THAT(refused({bert, "model.attention_window=5"}), HasSubstr("is bidirectional"));
}

TEST(ByteSize, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(parse_byte_size("64GiB", "x"), std::int64_t{64} << 30);
  EXPECT_EQ(parse_byte_size("64G", "x"), std::int64_t{64} << 30);
  EXPECT_EQ(parse_byte_size("80 GB", "x"), 80'000'000'000);
  EXPECT_EQ(parse_byte_size("1.5TiB", "x"), std::int64_t{3} << 39);
  EXPECT_EQ(parse_byte_size("123", "x"), 123);
  for (const char* wrong : {"", "GiB", "64XB", "-1GiB", "0", "1e30", "64 GiBs", "64Gx"})
    EXPECT_THAT(refusal_of([&] { parse_byte_size(wrong, "--memory"); }),
                HasSubstr("--memory: expected a size of memory"))
        << wrong;
  EXPECT_THAT(refused({"run.memory=lots"}), HasSubstr("run.memory: expected"));
}

TEST(Validate, ScaledRotaryPositions) {
  const std::string rope = "model.position=rope";
  EXPECT_THAT(refused({"model.rope_scaling=linear"}),
              HasSubstr("requires model.position = \"rope\""));
  EXPECT_THAT(refused({rope, "model.rope_scaling=linear"}),
              HasSubstr("requires model.rope_scaling_factor"));
  EXPECT_THAT(refused({rope, "model.rope_scaling_factor=8"}), HasSubstr("has no effect without"));
  EXPECT_EQ(refused({rope, "model.rope_scaling=dynamic"}), "accepted");
  EXPECT_THAT(refused({rope, "model.rope_scaling=proportional"}), HasSubstr("none, linear"));
  EXPECT_THAT(refused({rope, "model.rope_scaling=yarn", "model.rope_scaling_factor=4",
                       "model.rope_beta_fast=0.5"}),
              HasSubstr("must not be below model.rope_beta_slow"));
  const std::vector<std::string> llama3 = {rope, "model.rope_scaling=llama3",
                                           "model.rope_scaling_factor=8"};
  const auto from = [&](const char* low) {
    std::vector<std::string> all = llama3;
    all.push_back(fmt::format("model.rope_low_freq_factor={}", low));
    return refused(all);
  };
  EXPECT_EQ(from("4"), "accepted");
  EXPECT_THAT(from("5"), HasSubstr("model.rope_high_freq_factor = 4 must not be below"));
}

TEST(Validate, FactorsOfTheLength) {
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"model.position=rope",
                                    "model.head_dim=64",
                                    "model.rope_percent=0.0625",
                                    "model.rope_scaling=longrope",
                                    "model.rope_short_factors=[1, 1.5]",
                                    "model.rope_long_factors=[2, 8.25]"};
    all.insert(all.end(), more.begin(), more.end());
    return refused(all);
  };
  EXPECT_EQ(with({}), "accepted");
  EXPECT_THAT(with({"model.rope_long_factors=[2]"}),
              AllOf(HasSubstr("each of 2 rotary frequencies"),
                    HasSubstr("rope_long_factors has 1 number: list 2")));
  EXPECT_THAT(with({"model.rope_short_factors=[1, 0]"}), HasSubstr("must be above 0"));
  EXPECT_THAT(with({"model.rope_short_factors=[1, true]"}), HasSubstr("a list of numbers"));
  EXPECT_THAT(with({"model.rope_original_length=1"}), HasSubstr("rope_original_length above 1"));
  EXPECT_THAT(with({"model.rope_scaling=none"}),
              HasSubstr("model.rope_short_factors has no effect without"));
  // Which of the two lists a sample takes would depend on the documents of its batch.
  EXPECT_EQ(with({"data.reset_position_ids=true"}), "accepted");
  EXPECT_THAT(with({"data.reset_position_ids=true", "model.rope_original_length=16"}),
              HasSubstr("longest document of a batch"));
}

TEST(Validate, MultiTokenPrediction) {
  const std::string modules = "model.mtp_layers=2", rope = "model.position=rope";
  EXPECT_EQ(refused({modules, rope}), "accepted");
  EXPECT_THAT(refused({modules}), HasSubstr("conflicts with model.position = \"learned\""));
  EXPECT_THAT(refused({modules, rope, "model.embedding_norm=true"}),
              HasSubstr("conflicts with model.embedding_norm"));
  EXPECT_THAT(refused({modules, "model.family=bert"}),
              HasSubstr("conflicts with model.family = \"bert\""));
  EXPECT_THAT(refused({modules, rope, "model.seq_length=2"}),
              HasSubstr("requires sequences longer"));
  EXPECT_THAT(refused({modules, rope, "model.mtp_loss_scale=0"}),
              HasSubstr("leaves the modules untrained"));
  EXPECT_THAT(refused({modules, rope, "curriculum.schedule=fixed_linear", "curriculum.iters=4",
                       "curriculum.min_length=2", "curriculum.length_step=2"}),
              HasSubstr("curriculum.min_length = 2 must be above model.mtp_layers = 2"));
  EXPECT_THAT(refused({"model.mtp_layers=4", rope}), HasSubstr("at least 0 and at most 3"));
  EXPECT_THAT(refused({"model.mtp_loss_scale=0.3"}),
              HasSubstr("has no effect without model.mtp_layers"));
}

TEST(Validate, KeysThatDoNothingAlone) {
  EXPECT_THAT(refused({"model.latent_norm_eps=1e-6"}),
              HasSubstr("has no effect without model.kv_lora_rank"));
  EXPECT_THAT(refused({"model.rope_truncate=false"}),
              HasSubstr("has no effect without model.rope_scaling"));
  EXPECT_THAT(refused({"model.family=bert", "model.token_types=false"}),
              HasSubstr("set order_head to false too"));
}

TEST(Validate, Positions) {
  EXPECT_THAT(refused({"model.max_positions=512"}),
              AllOf(HasSubstr("model.seq_length = 1024"), HasSubstr("model.max_positions = 512")));
}

TEST(Validate, Batches) {
  EXPECT_THAT(refused({"train.global_batch_size=30"}),
              AllOf(HasSubstr("global_batch_size can be 28 or 32"), HasSubstr("micro_batch_size")));
  EXPECT_THAT(refused({"train.global_batch_size=2"}), HasSubstr("can be 4"));
  EXPECT_THAT(refused({"train.rampup_batch_size=[8,8,100]"}), HasSubstr("set train.samples"));
  EXPECT_THAT(refused({"train.iters=0", "train.samples=100", "train.rampup_batch_size=[8,7,100]"}),
              HasSubstr("does not reach train.global_batch_size = 32"));
  EXPECT_THAT(refused({"train.rampup_batch_size=[8]"}), HasSubstr("expects three numbers"));
}

TEST(Validate, Length) {
  EXPECT_THAT(refused({"train.samples=5"}), HasSubstr("are mutually exclusive"));
  EXPECT_THAT(refused({"train.iters=0"}), HasSubstr("set train.iters or train.samples"));
  EXPECT_THAT(refused({"train.trace_steps=[5]"}), HasSubstr("trace_steps"));
}

TEST(Validate, Schedule) {
  EXPECT_THAT(refused({"optimizer.warmup_samples=5"}),
              HasSubstr("optimizer.warmup_samples conflicts with train.iters: use "
                        "optimizer.warmup_iters"));
  EXPECT_THAT(refused({"optimizer.warmup_iters=5", "optimizer.warmup_fraction=0.1"}),
              HasSubstr("are mutually exclusive"));
  EXPECT_THAT(refused({"optimizer.warmup_iters=1000"}),
              HasSubstr("for the decay, which ends after"));
  EXPECT_THAT(refused({"optimizer.warmup_iters=1", "optimizer.decay_iters=1"}),
              HasSubstr("which ends after 1 iteration: shorten the warm-up or set "
                        "optimizer.decay_iters above it"));
  EXPECT_EQ(refused({"optimizer.warmup_iters=1000", "optimizer.decay_style=constant"}), "accepted");
  EXPECT_THAT(refused({"optimizer.decay_style=wsd"}),
              HasSubstr("wsd_decay_iters between 1 and 1000"));
  EXPECT_THAT(refused({"optimizer.min_lr=0.1"}), HasSubstr("above optimizer.lr = 0.001"));
  EXPECT_THAT(refused({"optimizer.lr=0"}), HasSubstr("is missing lr"));
}

TEST(Validate, ClippingLeavesSomething) {
  EXPECT_EQ(refused({"optimizer.qk_clip_threshold=1e-300"}),
            "optimizer.qk_clip_threshold = 1e-300 would scale the weights of queries and keys to "
            "almost nothing: it must be at least 0.0001, or 0 for no clipping");
  EXPECT_THAT(refused({"optimizer.clip_grad=1e-30"}),
              HasSubstr("optimizer.clip_grad = 1e-30 would scale every gradient"));
  for (const char* sound :
       {"qk_clip_threshold=0", "qk_clip_threshold=100", "clip_grad=0", "clip_grad=1e-6"})
    EXPECT_EQ(refused({std::string("optimizer.") + sound}), "accepted") << sound;
}

TEST(Validate, ScheduleInTokens) {
  const std::string decay = "optimizer.decay_tokens=1000";
  EXPECT_EQ(refused({decay, "optimizer.warmup_tokens=10", "train.tokens=900"}), "accepted");
  EXPECT_EQ(refused({decay, "optimizer.warmup_iters=10"}), "accepted");
  EXPECT_EQ(refused({"train.tokens=900"}), "accepted");
  EXPECT_THAT(refused({"optimizer.warmup_tokens=10"}),
              HasSubstr("requires optimizer.decay_tokens"));
  EXPECT_THAT(refused({decay, "optimizer.warmup_tokens=1000"}),
              HasSubstr("for the decay, which ends after"));
  for (const std::string other : {"decay_iters=5", "warmup_fraction=0.1", "decay_style=wsd"}) {
    EXPECT_THAT(refused({decay, "optimizer." + other}),
                AllOf(HasSubstr(other.substr(0, other.find('='))),
                      HasSubstr("conflicts with optimizer.decay_tokens")));
  }
  EXPECT_THAT(refused({decay, "optimizer.warmup_tokens=10", "optimizer.warmup_iters=5"}),
              HasSubstr("warmup_iters conflicts with optimizer.warmup_tokens"));
}

TEST(Validate, Data) {
  EXPECT_THAT(refused({"data.path=a", "data.valid_path=b"}), HasSubstr("mutually exclusive"));
  for (const char* split : {"", "a", "1,2,3,4", "0,0,0", "-1,2", "1,,2", "1,nan"}) {
    EXPECT_THAT(refused({std::string("data.split=") + split}), HasSubstr("data.split")) << split;
  }
  for (const char* split : {"1", "90, 10", "969,30,1", "0.9,0.1", "98/2"}) {
    EXPECT_EQ(refused({std::string("data.split=\"") + split + "\""}), "accepted") << split;
  }
}

TEST(Validate, DecayRatesAndEpsilonThatMomentsCannotHold) {
  EXPECT_EQ(refused({"optimizer.beta2=0.9999999", "optimizer.eps=1e-20"}), "accepted");
  EXPECT_THAT(refused({"optimizer.beta2=0.99999999"}),
              AllOf(HasSubstr("optimizer.beta2 = 0.99999999"), HasSubstr("at most 0.9999999"),
                    HasSubstr("fp64")));
  EXPECT_THAT(refused({"optimizer.beta1=0.99999999"}), HasSubstr("optimizer.beta1"));
  EXPECT_THAT(refused({"optimizer.eps=1e-300"}),
              AllOf(HasSubstr("optimizer.eps = 1e-300"), HasSubstr("at least 1e-20")));
  EXPECT_EQ(refused({"run.precision=fp64", "optimizer.beta2=0.99999999", "optimizer.eps=1e-100"}),
            "accepted");
  EXPECT_THAT(refused({"run.precision=fp64", "optimizer.eps=1e-300"}),
              HasSubstr("at least 1e-150"));
  EXPECT_EQ(refused({"optimizer.name=sgd", "optimizer.eps=1e-300"}), "accepted");
  EXPECT_THAT(refused({"optimizer.name=sgd", "optimizer.momentum=0.99999999"}),
              HasSubstr("optimizer.momentum"));
}

TEST(Validate, Muon) {
  EXPECT_EQ(refused({"optimizer.name=muon", "optimizer.muon_steps=4"}), "accepted");
  EXPECT_THAT(refused({"optimizer.name=muon", "optimizer.muon_steps=7",
                       "optimizer.muon_coefficients=quintic"}),
              AllOf(HasSubstr("optimizer.muon_steps = 7"), HasSubstr("use 10")));
  EXPECT_THAT(refused({"optimizer.name=muon", "optimizer.muon_momentum=0.99999999"}),
              HasSubstr("optimizer.muon_momentum"));
  EXPECT_THAT(refused({"optimizer.name=muon", "optimizer.beta2=0.99999999"}),
              HasSubstr("optimizer.beta2"));
  EXPECT_THAT(refused({"optimizer.name=lion", "optimizer.lion_beta2=0.99999999"}),
              HasSubstr("optimizer.lion_beta2"));
}

TEST(Validate, Offload) {
  EXPECT_EQ(refused({"offload.optimizer=host"}), "accepted");
  EXPECT_EQ(refused({"offload.optimizer=file", "offload.path=/tmp"}), "accepted");
  EXPECT_EQ(refused({"offload.optimizer=file", "offload.path=/tmp", "moe.num_experts=8",
                     "moe.score=sigmoid", "moe.expert_bias=true", "model.bias=false"}),
            "accepted");
  EXPECT_THAT(refused({"offload.optimizer=file"}), HasSubstr("requires offload.path"));
  EXPECT_THAT(refused({"offload.optimizer=file", "offload.path=/tmp", "checkpoint.async=true"}),
              HasSubstr("checkpoint.async"));
}

TEST(Validate, OffloadedParameters) {
  const std::vector<std::string> whole = {"offload.parameters=file", "offload.path=/tmp",
                                          "parallel.zero=3", "run.precision=bf16"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> keys = whole;
    keys.push_back(more);
    return refused(keys);
  };
  EXPECT_EQ(refused(whole), "accepted");
  EXPECT_EQ(refused({"offload.parameters=host"}), "accepted");
  // On a GPU, host offloading moves parameters out of device memory.
  EXPECT_THAT(refused({"offload.parameters=host", "run.device=cuda"}),
              HasSubstr("parallel.zero is 0: use 3"));
  EXPECT_THAT(with("parallel.zero=2"), AllOf(HasSubstr("parallel.zero is 2"), HasSubstr("use 3")));
  EXPECT_THAT(with("offload.path="), HasSubstr("requires offload.path"));
  EXPECT_THAT(with("run.precision=fp32"), HasSubstr("set offload.optimizer = \"file\" too"));
}

TEST(Validate, OffloadedActivations) {
  EXPECT_EQ(refused({"offload.activations=host"}), "accepted");
  EXPECT_THAT(refused({"offload.activation_layers=2", "run.device=cuda"}),
              HasSubstr("set offload.activations to \"host\""));
  EXPECT_EQ(refused({"offload.activations=file", "offload.path=/tmp"}), "accepted");
  EXPECT_THAT(refused({"offload.activations=file"}), HasSubstr("requires offload.path"));
  EXPECT_THAT(refused({"offload.activation_layers=2"}),
              HasSubstr("offload.activations = \"none\""));
  EXPECT_THAT(
      refused({"offload.activations=file", "offload.path=/tmp", "offload.activation_layers=1000"}),
      HasSubstr("0 means all of them"));
  EXPECT_EQ(refused({"parallel.distribute_saved_activations=true", "parallel.recompute=full"}),
            "accepted");
  EXPECT_THAT(
      refused({"parallel.distribute_saved_activations=true"}),
      AllOf(HasSubstr("set recompute to \"full\""), HasSubstr("parallel.sequence_parallel")));
  EXPECT_THAT(refused({"parallel.distribute_saved_activations=true", "parallel.recompute=full",
                       "offload.activations=file", "offload.path=/tmp"}),
              HasSubstr("keep one of them"));
}

TEST(Validate, StatesInTwoBytes) {
  EXPECT_EQ(refused({"run.gradient_dtype=bf16", "optimizer.moment_dtype=bf16"}), "accepted");
  EXPECT_EQ(refused({"parallel.numerics=exact", "optimizer.moment_dtype=bf16"}), "accepted");
  EXPECT_THAT(refused({"parallel.numerics=exact", "run.gradient_dtype=bf16"}),
              AllOf(HasSubstr("run.gradient_dtype"), HasSubstr("numerics = \"fast\"")));
  EXPECT_THAT(refused({"run.precision=fp64", "run.gradient_dtype=bf16"}),
              AllOf(HasSubstr("run.gradient_dtype"), HasSubstr("fp64")));
  EXPECT_THAT(refused({"run.precision=fp64", "optimizer.moment_dtype=bf16"}),
              HasSubstr("optimizer.moment_dtype"));
}

TEST(Validate, HeadsWiderThanAttentionCanCompute) {
  EXPECT_EQ(refused({"model.head_dim=256"}), "accepted");
  EXPECT_THAT(refused({"model.head_dim=257"}), HasSubstr("model.head_dim = 257 exceeds 256"));
  EXPECT_THAT(refused({"model.num_heads=2"}),
              AllOf(HasSubstr("model.head_dim = 384"), HasSubstr("768 / 2")));
}

TEST(Validate, MicroBatchesOfMorePositionsThan32BitsCount) {
  EXPECT_THAT(refused({"model.seq_length=65536", "train.micro_batch_size=65536",
                       "train.global_batch_size=65536"}),
              AllOf(HasSubstr("train.micro_batch_size = 65536"), HasSubstr("2147483647 tokens")));
  EXPECT_EQ(refused({"model.seq_length=65536", "train.micro_batch_size=32767",
                     "train.global_batch_size=32767"}),
            "accepted");
}

}  // namespace
}  // namespace trireme
