// Flags become the configuration that means the same.
#include "importers/megatron/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "config/batch_sizes.h"
#include "importers/megatron/translated.h"

namespace trireme::megatron {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Translate, AbsentFlagsMeanMegatronsDefaults) {
  const Config c = config("");
  EXPECT_EQ(c.run.precision, Precision::fp32);
  EXPECT_EQ(c.run.seed, 1234);
  EXPECT_EQ(c.model.family, "gpt");
  EXPECT_EQ(c.model.position, PositionEncoding::learned);
  EXPECT_EQ(c.model.norm, NormType::layer_norm);
  EXPECT_EQ(c.model.norm_eps, 1e-5);
  EXPECT_EQ(c.model.activation, MlpActivation::gelu_tanh);
  EXPECT_TRUE(c.model.bias && c.model.qkv_bias && c.model.tie_embeddings);
  EXPECT_EQ(c.model.num_kv_heads, 4);
  EXPECT_EQ(c.model.ffn_hidden_size, 256);
  EXPECT_EQ(c.model.hidden_dropout, 0.1);
  EXPECT_EQ(c.model.attention_dropout, 0.1);
  EXPECT_EQ(c.model.init_std, 0.02);
  EXPECT_EQ(c.model.vocab_multiple, 128);
  EXPECT_EQ(c.data.split, "969, 30, 1");
  EXPECT_EQ(c.data.tokenizer, "gpt2");
  EXPECT_EQ(c.train.global_batch_size, 0);
  EXPECT_EQ(c.train.eval_interval, 1000);
  EXPECT_EQ(c.train.eval_iters, 100);
  EXPECT_EQ(c.train.log_interval, 100);
  EXPECT_EQ(c.optimizer.name, OptimizerKind::adamw);
  EXPECT_EQ(c.optimizer.decay_style, DecayStyle::linear);
  EXPECT_EQ(c.optimizer.min_lr, 0);
  EXPECT_EQ(c.optimizer.beta1, 0.9);
  EXPECT_EQ(c.optimizer.beta2, 0.999);
  EXPECT_EQ(c.optimizer.eps, 1e-8);
  EXPECT_EQ(c.optimizer.weight_decay, 0.01);
  EXPECT_EQ(c.optimizer.clip_grad, 1.0);
  EXPECT_EQ(c.optimizer.initial_loss_scale, 4294967296.0);
  EXPECT_EQ(c.parallel.zero, 0);
  EXPECT_EQ(c.parallel.recompute, Recompute::none);
}

TEST(Translate, BertHasItsOwnDefaults) {
  const std::string agreed = "--calculate-per-token-loss ";
  const Config c = config(agreed + "--mask-prob 0.2", Program::bert);
  EXPECT_EQ(c.model.family, "bert");
  EXPECT_EQ(c.data.tokenizer, "bert");
  EXPECT_EQ(c.data.mask_prob, 0.2);
  EXPECT_EQ(c.data.short_seq_prob, 0.1);
  EXPECT_TRUE(c.model.order_head);
  // What our family bert would take otherwise.
  EXPECT_EQ(c.model.norm_eps, 1e-5);
  EXPECT_EQ(c.model.activation, MlpActivation::gelu_tanh);
  EXPECT_FALSE(config(agreed + "--bert-no-binary-head", Program::bert).model.order_head);
  EXPECT_THAT(noted(translated("--mask-prob 0.2")), ::testing::Contains("--mask-prob"));
}

// Megatron's loss is then a mean of means, whose weights depend on the micro-batches.
TEST(Translate, MicroBatchesOfUnequalWeightAreAskedAbout) {
  EXPECT_THAT(refusal("", Program::bert),
              HasSubstr("--calculate-per-token-loss: Trireme gives all tokens equal weight"));
  EXPECT_THAT(refusal("--eod-mask-loss"), HasSubstr("add the flag to confirm"));
  EXPECT_TRUE(config("--eod-mask-loss --calculate-per-token-loss").data.eod_mask_loss);
  EXPECT_NO_THROW(config("--eod-mask-loss --global-batch-size 2"));  // one micro-batch
  const auto asks = [](std::int64_t ranks, const std::string& more) {
    try {
      translate(words(kSmall + more), {.program = Program::bert, .ranks = ranks});
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(asks(1, ""));
  EXPECT_TRUE(asks(2, ""));
  EXPECT_FALSE(asks(4, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"));
  EXPECT_TRUE(asks(8, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"));
  EXPECT_TRUE(asks(1, "--global-batch-size 4"));
}

TEST(Translate, EmptyTextsThatMegatronIgnoresAreNotGiven) {
  const std::string plain = to_toml(translated(""));
  for (const char* flag : {"--save", "--load", "--pretrained-checkpoint", "--tensorboard-dir",
                           "--tokenizer-model", "--data-cache-path"}) {
    for (const std::string& before : {std::string(), std::string(flag) + " somewhere "})
      EXPECT_EQ(to_toml(translated(before + flag + "=")), plain) << flag;
  }
  EXPECT_THAT(refusal("--vocab-file="), HasSubstr("needs --vocab-file"));
}

TEST(Translate, SlopesAndNormsOfBloom) {
  const Config c = config("--position-embedding-type alibi --embed-layernorm");
  EXPECT_EQ(c.model.position, PositionEncoding::alibi);
  EXPECT_TRUE(c.model.embedding_norm);
  EXPECT_FALSE(config("--position-embedding-type alibi").model.embedding_norm);
}

TEST(Translate, ModelFlags) {
  const Config c = config(
      "--swiglu --normalization RMSNorm --norm-epsilon 1e-6 --disable-bias-linear --add-qkv-bias "
      "--untie-embeddings-and-output-weights --group-query-attention --num-query-groups 2 "
      "--position-embedding-type rope --rotary-base 500000 --rotary-percent 0.5 --kv-channels 32 "
      "--ffn-hidden-size 96 --make-vocab-size-divisible-by 64 --init-method-std 0.01 "
      "--hidden-dropout 0.0 --attention-dropout 0");
  EXPECT_EQ(c.model.family, "llama");
  EXPECT_EQ(c.model.activation, MlpActivation::swiglu);
  EXPECT_EQ(c.model.norm, NormType::rms_norm);
  EXPECT_EQ(c.model.norm_eps, 1e-6);
  EXPECT_FALSE(c.model.bias);
  EXPECT_TRUE(c.model.qkv_bias);
  EXPECT_FALSE(c.model.tie_embeddings);
  EXPECT_EQ(c.model.num_kv_heads, 2);
  EXPECT_EQ(c.model.position, PositionEncoding::rope);
  EXPECT_EQ(c.model.rope_base, 500000);
  EXPECT_EQ(c.model.rope_percent, 0.5);
  EXPECT_EQ(c.model.head_dim, 32);
  EXPECT_EQ(c.model.ffn_hidden_size, 96);
  EXPECT_EQ(c.model.vocab_multiple, 64);
  EXPECT_EQ(c.model.init_std, 0.01);
  EXPECT_EQ(c.model.hidden_dropout, 0);
  EXPECT_EQ(c.model.attention_dropout, 0);
}

TEST(Translate, NormsOfHeadsAreThoseOfRms) {
  EXPECT_FALSE(config("--normalization RMSNorm").model.qk_norm);
  EXPECT_TRUE(config("--normalization RMSNorm --qk-layernorm").model.qk_norm);
  EXPECT_THAT([] { config("--qk-layernorm"); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("LayerNorm")));
}

TEST(Translate, WindowsCountThePositionItself) {
  EXPECT_EQ(config("--seq-length 32").model.attention_window, 0);
  EXPECT_EQ(config("--window-size 7,0").model.attention_window, 8);
  EXPECT_EQ(config("--window-size (0,0)").model.attention_window, 1);
  EXPECT_EQ(config("--window-size (-1,0)").model.attention_window, 0);
  EXPECT_EQ(config("--window-size (-1,-1)").model.attention_window, 0);
  for (const char* wrong : {"7", "(7,1)", "7,-1", "7,0,0", "-2,0", "x,0"}) {
    EXPECT_THAT([&] { config(fmt::format("--window-size {}", wrong)); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr("--window-size")))
        << wrong;
  }
}

TEST(Translate, ActivationFollowsTheKernelThatMegatronTakes) {
  EXPECT_EQ(config("--no-bias-gelu-fusion").model.activation, MlpActivation::gelu_erf);
  EXPECT_EQ(config("--disable-bias-linear").model.activation, MlpActivation::gelu_erf);
  EXPECT_EQ(config("--openai-gelu --no-bias-gelu-fusion").model.activation,
            MlpActivation::gelu_tanh);
  EXPECT_EQ(config("--squared-relu").model.activation, MlpActivation::squared_relu);
}

TEST(Translate, Fp8KeepsTheRecipesThatAreThere) {
  const Fp8Config blocks = config("--bf16 --fp8-format e4m3 --fp8-recipe blockwise").fp8;
  EXPECT_EQ(blocks.recipe, Fp8Recipe::blockwise);
  EXPECT_EQ(blocks.format, Fp8Mix::e4m3);
  EXPECT_TRUE(blocks.power_of_2_scales);
  EXPECT_EQ(blocks.first_layers_bf16 + blocks.last_layers_bf16, 0);
  const Fp8Config tensors =
      config(
          "--bf16 --fp8-format hybrid --fp8-recipe tensorwise --num-layers 4 --fp8-margin 0 "
          "--first-last-layers-bf16 --num-layers-at-end-in-bf16 2 --fp8-param-gather")
          .fp8;
  EXPECT_EQ(tensors.recipe, Fp8Recipe::tensorwise);
  EXPECT_EQ(tensors.format, Fp8Mix::hybrid);
  EXPECT_FALSE(tensors.power_of_2_scales);
  EXPECT_EQ(tensors.first_layers_bf16, 1);
  EXPECT_EQ(tensors.last_layers_bf16, 2);
  EXPECT_EQ(config("--fp8-recipe blockwise").fp8.recipe, Fp8Recipe::none);  // as in Megatron
  EXPECT_THAT(refusal("--fp8-format e4m3"), HasSubstr("delayed scaling"));
  EXPECT_THAT(refusal("--fp8-format e4m3 --fp8-recipe delayed"), HasSubstr("--fp8-recipe"));
  EXPECT_THAT(refusal("--fp8-format e4m3 --fp8-recipe mxfp8"), HasSubstr("'mxfp8'"));
  EXPECT_THAT(refusal("--fp8-format e4m3 --fp8-recipe blockwise --fp8-margin 1"),
              HasSubstr("--fp8-margin"));
}

TEST(Translate, CoupledWeightDecayIsAdamsInEitherOrder) {
  for (const char* flags :
       {"--no-decoupled-weight-decay", "--no-decoupled-weight-decay --optimizer adam",
        "--optimizer adam --no-decoupled-weight-decay"})
    EXPECT_EQ(config(flags).optimizer.name, OptimizerKind::adam) << flags;
  EXPECT_EQ(config("--optimizer sgd --no-decoupled-weight-decay").optimizer.name,
            OptimizerKind::sgd);
}

TEST(Translate, MuonAndLionHaveMegatronsDefaults) {
  const OptimizerConfig plain = config("--optimizer muon").optimizer;
  EXPECT_EQ(plain.name, OptimizerKind::muon);
  EXPECT_EQ(plain.muon_momentum, 0.9);
  EXPECT_FALSE(plain.muon_nesterov);
  EXPECT_EQ(plain.muon_coefficients, MuonCoefficients::quintic);
  EXPECT_EQ(plain.muon_scale, MuonScale::spectral);
  const OptimizerConfig given =
      config(
          "--optimizer muon --muon-momentum 0.95 --muon-nesterov --muon-coefficient-type simple "
          "--muon-num-ns-steps 6 --muon-scale-mode shape_scaling --muon-extra-scale-factor 0.2")
          .optimizer;
  EXPECT_EQ(given.muon_momentum, 0.95);
  EXPECT_TRUE(given.muon_nesterov);
  EXPECT_EQ(given.muon_coefficients, MuonCoefficients::simple);
  EXPECT_EQ(given.muon_steps, 6);
  EXPECT_EQ(given.muon_scale, MuonScale::original);
  EXPECT_EQ(given.muon_scale_factor, 0.2);
  EXPECT_EQ(config("--optimizer dist_muon").parallel.zero, 1);
  const OptimizerConfig lion = config("--optimizer lion --lion-beta1 0.9").optimizer;
  EXPECT_EQ(lion.name, OptimizerKind::lion);
  EXPECT_EQ(lion.lion_beta1, 0.9);
  EXPECT_EQ(lion.lion_beta2, 0.98);
}

TEST(Translate, MuonsMatricesAreWhole) {
  const std::string split = "--optimizer muon --tensor-model-parallel-size 2 ";
  EXPECT_THAT(refusal(split), HasSubstr("--muon-tp-mode"));
  EXPECT_EQ(config(split + "--muon-tp-mode distributed").parallel.tp, 2);
  EXPECT_THAT(refusal(split + "--muon-tp-mode blockwise"), HasSubstr("--muon-tp-mode duplicated"));
  EXPECT_EQ(config("--optimizer muon --muon-tp-mode blockwise").optimizer.name,
            OptimizerKind::muon);
}

TEST(Translate, MatricesThatMuonTakesOtherwise) {
  const std::string rotary = "--optimizer muon --use-rotary-position-embeddings ";
  const auto note = [](const std::string& flags) {
    for (const Note& one : translated(flags).notes)
      if (one.flag == "--optimizer") return one.text;
    return std::string();
  };
  EXPECT_EQ(note(rotary), "");
  EXPECT_THAT(note("--optimizer muon"), HasSubstr("learned position embeddings"));
  EXPECT_THAT(note(rotary + "--swiglu"), HasSubstr("gate and up"));
  EXPECT_THAT(note(rotary + "--disable-bias-linear --num-experts 8"), HasSubstr("routers"));
}

TEST(Translate, GroupsOfQueries) {
  EXPECT_EQ(config("--group-query-attention").model.num_kv_heads, 1);
  const Translation alone = translated("--num-query-groups 2");
  EXPECT_EQ(to_config(alone).model.num_kv_heads, 4);
  EXPECT_THAT(noted(alone), ::testing::Contains("--num-query-groups"));
}

TEST(Translate, WidthsOfHeadsHaveNoEffectOnLatentAttention) {
  const Translation latent = translated(
      "--multi-latent-attention --qk-layernorm --normalization RMSNorm --disable-bias-linear "
      "--position-embedding-type rope --kv-channels 48");
  EXPECT_EQ(to_config(latent).model.head_dim, 192);
  EXPECT_THAT(noted(latent), ::testing::Contains("--kv-channels"));
}

TEST(Translate, ScheduleOfACheckpointThatIsNotAnotherRunsIsOurs) {
  const std::string schedule = "--use-checkpoint-opt_param-scheduler ";
  for (const std::string& own : {std::string(), std::string("--save runs/a --load runs/a"),
                                 std::string("--save runs/a --load runs/b --finetune")}) {
    EXPECT_THAT(noted(translated(schedule + own)),
                ::testing::Contains("--use-checkpoint-opt_param-scheduler"))
        << own;
  }
  EXPECT_THAT(refusal(schedule + "--save runs/a --load runs/b"),
              HasSubstr("--use-checkpoint-opt_param-scheduler: the configuration"));
}

TEST(Translate, MultiTokenPrediction) {
  const std::string rope = "--position-embedding-type rope ";
  EXPECT_EQ(config(rope).model.mtp_layers, 0);
  EXPECT_EQ(config(rope + "--mtp-num-layers 0").model.mtp_layers, 0);
  const Config one = config(rope + "--mtp-num-layers 1");
  EXPECT_EQ(one.model.mtp_layers, 1);
  EXPECT_EQ(one.model.mtp_loss_scale, 0.1);
  EXPECT_EQ(config(rope + "--mtp-num-layers 2 --mtp-loss-scaling-factor 0.3").model.mtp_loss_scale,
            0.3);
  const Translation alone = translated(rope + "--mtp-loss-scaling-factor 0.3");
  EXPECT_EQ(to_config(alone).model.mtp_loss_scale, 0.1);
  EXPECT_THAT(noted(alone), ::testing::Contains("--mtp-loss-scaling-factor"));
}

TEST(Translate, PositionsThatAreNotLearned) {
  EXPECT_EQ(config("--use-rotary-position-embeddings").model.position, PositionEncoding::rope);
  EXPECT_EQ(
      config("--use-rotary-position-embeddings --position-embedding-type rope").model.position,
      PositionEncoding::rope);
  EXPECT_EQ(config("--no-position-embedding --position-embedding-type rope").model.position,
            PositionEncoding::rope);
  EXPECT_EQ(config("--no-position-embedding").model.position, PositionEncoding::none);
}

TEST(Translate, ScaledRotaryPositions) {
  const std::string rope = "--position-embedding-type rope ";
  const Config llama3 = config(rope + "--use-rope-scaling");
  EXPECT_EQ(llama3.model.rope_scaling, RopeScaling::llama3);
  EXPECT_EQ(llama3.model.rope_scaling_factor, 8);
  EXPECT_EQ(llama3.model.rope_low_freq_factor, 1);
  EXPECT_EQ(llama3.model.rope_high_freq_factor, 4);
  EXPECT_EQ(llama3.model.rope_original_length, 8192);
  EXPECT_EQ(config(rope + "--use-rope-scaling --rope-scaling-factor 32").model.rope_scaling_factor,
            32);
  const Config linear = config(rope + "--rotary-seq-len-interpolation-factor 4");
  EXPECT_EQ(linear.model.rope_scaling, RopeScaling::linear);
  EXPECT_EQ(linear.model.rope_scaling_factor, 4);
  for (const char* none :
       {"", "--rotary-seq-len-interpolation-factor 1", "--rope-scaling-factor 8"})
    EXPECT_EQ(config(rope + none).model.rope_scaling, RopeScaling::none) << none;
  EXPECT_EQ(config("--use-rope-scaling").model.rope_scaling, RopeScaling::none);
  EXPECT_THAT(refusal(rope + "--use-rope-scaling --rotary-seq-len-interpolation-factor 4"),
              HasSubstr("contradicts --use-rope-scaling"));
  EXPECT_THAT(refusal(rope + "--rotary-seq-len-interpolation-factor 0"),
              HasSubstr("--rotary-seq-len-interpolation-factor: 0 is not above 1"));
  EXPECT_THAT(refusal(rope + "--use-rope-scaling --rope-scaling-factor 0.5"),
              HasSubstr("--rope-scaling-factor: 0.5 is not above 1"));
}

TEST(Translate, OtherNamesOfFlags) {
  const std::string rope = "--position-embedding-type rope ";
  EXPECT_EQ(config(rope + "--rotary-position-embeddings-theta 5000").model.rope_base, 5000);
  EXPECT_EQ(config(rope).model.rope_base, 10000);
  EXPECT_THAT(refusal(rope + "--rotary-position-embeddings-theta 5000 --rotary-base 4000"),
              HasSubstr("both set the same number"));
  const Config c =
      config("--activations-checkpoint-method block --activations-checkpoint-num-layers 1");
  EXPECT_EQ(c.parallel.recompute, Recompute::full);
  EXPECT_EQ(c.parallel.recompute_layers, 1);
  EXPECT_EQ(config("--activations-checkpoint-method uniform").parallel.recompute, Recompute::full);
  const Config glu = config("--glu-activation swiglu");
  EXPECT_EQ(glu.model.activation, MlpActivation::swiglu);
  EXPECT_EQ(glu.model.ffn_hidden_size, 256);
  EXPECT_TRUE(glu.model.bias);
  EXPECT_EQ(config("--glu-activation swiglu --ffn-hidden-size 96").model.ffn_hidden_size, 96);
  EXPECT_THAT(refusal("--glu-activation geglu"), HasSubstr("'geglu' is not one of swiglu"));
}

TEST(Translate, TheZeroBubblePipeline) {
  const std::string pipeline =
      "--num-layers 4 --pipeline-model-parallel-size 2 --global-batch-size 16 ";
  EXPECT_EQ(
      config(pipeline + "--enable-zbh1-pipeline --enable-zbh1-exact-semantics").parallel.schedule,
      ScheduleKind::zb1p);
  EXPECT_EQ(config("--enable-zbh1-pipeline").parallel.schedule, ScheduleKind::one_f_one_b);
  EXPECT_THAT(refusal(pipeline + "--enable-zbh1-pipeline --num-layers-per-virtual-pipeline-stage "
                                 "1"),
              HasSubstr("contradicts --enable-zbh1-pipeline"));
}

TEST(Translate, SplitsAndEvaluationsAsMegatronReadsThem) {
  EXPECT_EQ(config("--split '99,1,0'").data.split, "99,1,0");
  EXPECT_EQ(config("--split 949,50,1").data.split, "949,50,1");
  EXPECT_EQ(config("--split [90/8/2]").data.split, "90,8,2");
  for (const char* wrong : {"90,abc5,5", "-1,1,0", "98,2%,0", "1e2,1"})
    EXPECT_THAT(refusal(std::string("--split=") + wrong),
                AllOf(HasSubstr("--split"), HasSubstr(wrong), HasSubstr("969,30,1")));
  EXPECT_THAT(refusal("--eval-iters 10,20"), HasSubstr("give one number"));
  EXPECT_THAT(refusal("--multiple-validation-sets"), HasSubstr("trireme eval"));
  EXPECT_THAT(refusal("--full-validation"), HasSubstr("--eval-iters"));
  const Translation none = translated("--eval-iters -1");
  EXPECT_EQ(to_config(none).train.eval_iters, 0);
  EXPECT_THAT(noted(none), ::testing::Contains("--eval-iters"));
}

TEST(Translate, BlendsInFilesAreRead) {
  const auto with = [](const std::string& flags, const std::string& text) {
    std::vector<std::string> all = words(kSmall + flags);
    std::erase(all, "--data-path");
    std::erase(all, "corpus");
    TranslateOptions options;
    options.lenient = true;
    options.read_file = [&](const std::string&) { return std::optional(text); };
    return translate(all, options);
  };
  const Translation whole = with("--data-args-path f --split 98,2,0", "0.30 a\n0.70\tb\n");
  EXPECT_THAT(whole.lost, IsEmpty());
  EXPECT_THAT(to_config(whole).data.path, ElementsAre("0.30", "a", "0.70", "b"));
  const Translation parts =
      with("--per-split-data-args-path f",
           R"({"train": ["0.3", "a", 0.7, "b"], "valid": "v w", "test": null})");
  EXPECT_THAT(parts.lost, IsEmpty());
  EXPECT_THAT(to_config(parts).data.train_path, ElementsAre("0.3", "a", "0.7", "b"));
  EXPECT_THAT(to_config(parts).data.valid_path, ElementsAre("v", "w"));
  EXPECT_THAT(to_config(parts).data.test_path, IsEmpty());
  for (const auto& [flags, text] :
       {std::pair{"--data-args-path f", " \n"},
        {"--per-split-data-args-path f", "{}"},
        {"--per-split-data-args-path f", "[1]"},
        {"--per-split-data-args-path f", "a b"},
        {"--per-split-data-args-path f", R"({"train": [true], "valid": null, "test": null})"},
        {"--data-args-path f --data-path x", "a"},
        {"--data-args-path f --per-split-data-args-path f", "{}"}})
    EXPECT_THAT(with(flags, text).lost, Not(IsEmpty())) << flags << text;
}

TEST(Translate, FlagsOfTorchrunSayHowRanksAreStarted) {
  for (const char* flag : {"--nproc_per_node 8", "--nnodes 2", "--node_rank 0", "--master_addr x"})
    EXPECT_THAT(refusal(flag), HasSubstr("mpirun or srun"));
}

TEST(Translate, StepsToProfileBecomeATrace) {
  EXPECT_THAT(config("--profile").train.trace_steps, ElementsAre(11, 12));
  EXPECT_THAT(config("--profile --profile-step-start 3 --profile-step-end 5").train.trace_steps,
              ElementsAre(4, 5));
  EXPECT_THAT(config("--profile-step-start 3").train.trace_steps, ElementsAre());
  EXPECT_THAT(config("--profile --profile-step-start 5 --profile-step-end 5").train.trace_steps,
              ElementsAre());
}

TEST(Translate, TokenizersOfHuggingFaceLieInFolders) {
  const fs::path folder = fs::path(::testing::TempDir()) / "trireme_hf_tokenizer";
  fs::create_directories(folder);
  const std::string file = (folder / "tokenizer.json").string();
  for (const std::string& flags :
       {"--tokenizer-type HFTokenizer --tokenizer-model " + folder.string(),
        "--tokenizer-type PretrainedFromHF --tokenizer-name-or-path " + folder.string(),
        "--tokenizer-type HuggingFaceTokenizer --trust-remote-code --tokenizer-model " + file}) {
    const Config c = config(flags);
    EXPECT_EQ(c.data.tokenizer, "hf") << flags;
    EXPECT_EQ(c.data.tokenizer_model, file) << flags;
  }
  EXPECT_THAT(refusal("--tokenizer-type PretrainedFromHF --tokenizer-name-or-path some/model"),
              HasSubstr("'some/model' is not a local folder, and models are never downloaded"));
  fs::remove_all(folder);
}

// A run beside them would start with new weights.
TEST(Translate, CheckpointsOfOtherProgramsAreNotIgnored) {
  const fs::path folder = fs::path(::testing::TempDir()) / "trireme_foreign";
  const std::pair<const char*, const char*> cases[] = {
      {"latest_checkpointed_iteration.txt", "looks like a Megatron checkpoint"},
      {"iter_0001000", "looks like a Megatron checkpoint ('iter_0001000')"},
      {"global_step8000", "looks like a DeepSpeed checkpoint"},
      {"model.safetensors", "looks like a Hugging Face model"},
  };
  for (const auto& [name, message] : cases) {
    fs::create_directories(folder / name);
    for (const char* flag : {"--load ", "--save ", "--pretrained-checkpoint "}) {
      EXPECT_THAT(refusal(flag + folder.string()),
                  AllOf(HasSubstr(message), HasSubstr("would start with new weights")))
          << name << flag;
    }
    // A run of our own beside it.
    fs::create_directories(folder / "checkpoints");
    EXPECT_NO_THROW(config("--save " + folder.string()));
    fs::remove_all(folder);
  }
  fs::create_directories(folder);
  EXPECT_NO_THROW(config("--save " + folder.string() + " --load " + folder.string()));
  fs::remove_all(folder);
}

TEST(Translate, RunInSamplesWithASchedule) {
  std::vector<std::string> arguments = words(
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
      "--max-position-embeddings 64 --micro-batch-size 1 --lr 1e-3 --train-samples 20000 "
      "--data-path a --tokenizer-type NullTokenizer --vocab-size 100");
  arguments.insert(arguments.end(), {"--step-batch-size-schedule", "0:16 64K:32 0.128M:64"});
  const Config c = to_config(translate(arguments, {}));
  check(c);
  const auto schedule = batch_size_schedule(c);
  ASSERT_EQ(schedule.size(), 3u);
  EXPECT_EQ(schedule[1].samples, 1000);
  EXPECT_EQ(schedule[2].samples, 2000);
  EXPECT_EQ(schedule[2].size, 64);
  arguments.insert(arguments.end(), {"--global-batch-size", "64"});
  EXPECT_THROW(translate(arguments, {}), Error);
}

TEST(Translate, RunInSamplesWithRampup) {
  const std::vector<std::string> arguments = words(
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 64 --micro-batch-size 2 --global-batch-size 16 --lr 6.0e-4 "
      "--train-samples 1_000 --rampup-batch-size 4 4 100 --lr-decay-samples 900 "
      "--lr-warmup-fraction .05 --lr-decay-style inverse-square-root --data-path .3 a .7 b "
      "--tokenizer-type NullTokenizer --vocab-size 100 --eod-mask-loss "
      "--calculate-per-token-loss");
  const Translation translation = translate(arguments, {});
  const Config c = to_config(translation);
  check(c);
  EXPECT_EQ(c.train.samples, 1000);
  EXPECT_THAT(c.train.rampup_batch_size, ElementsAre(4, 4, 100));
  EXPECT_EQ(c.optimizer.decay_samples, 900);
  EXPECT_EQ(c.optimizer.warmup_fraction, 0.05);
  EXPECT_EQ(c.optimizer.decay_style, DecayStyle::inverse_sqrt);
  EXPECT_THAT(c.data.path, ElementsAre(".3", "a", ".7", "b"));
  EXPECT_EQ(c.data.tokenizer, "null");
  EXPECT_EQ(c.model.vocab_size, 101);
  EXPECT_TRUE(c.data.eod_mask_loss);
}

TEST(Translate, LayoutFlags) {
  const Config c = config(
      "--num-layers 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
      "--num-layers-per-virtual-pipeline-stage 2 --sequence-parallel --use-distributed-optimizer "
      "--context-parallel-size 1 --recompute-granularity full --recompute-method block "
      "--recompute-num-layers 3 --global-batch-size 16");
  EXPECT_EQ(c.parallel.tp, 2);
  EXPECT_EQ(c.parallel.pp, 2);
  EXPECT_EQ(c.parallel.virtual_stages, 4);
  EXPECT_EQ(c.parallel.schedule, ScheduleKind::interleaved);
  EXPECT_TRUE(c.parallel.sequence_parallel);
  EXPECT_EQ(c.parallel.zero, 1);
  EXPECT_EQ(c.parallel.recompute, Recompute::full);
  EXPECT_EQ(c.parallel.recompute_layers, 3);
  EXPECT_FALSE(config("--sequence-parallel").parallel.sequence_parallel);
  EXPECT_EQ(config("--recompute-activations").parallel.recompute, Recompute::selective);
  EXPECT_EQ(config("--checkpoint-activations").parallel.recompute, Recompute::full);
  EXPECT_EQ(config("--zero-stage 2").parallel.zero, 2);
  EXPECT_EQ(config("--use-torch-fsdp2").parallel.zero, 3);
  EXPECT_EQ(config("--use-custom-fsdp --data-parallel-sharding-strategy optim_grads").parallel.zero,
            2);
  EXPECT_THAT(config("--num-layers 14 --pipeline-model-parallel-size 4 "
                     "--decoder-first-pipeline-num-layers 3 --decoder-last-pipeline-num-layers 3")
                  .parallel.stage_layers,
              ElementsAre(3, 4, 4, 3));
}

TEST(Translate, CheckpointFlags) {
  const Config same = config("--save ckpt --load ckpt --save-interval 10 --async-save");
  EXPECT_EQ(same.run.dir, "ckpt");
  EXPECT_EQ(same.checkpoint.load, "");
  EXPECT_EQ(same.checkpoint.interval, 10);
  EXPECT_TRUE(same.checkpoint.async);
  const Config tuned = config("--save new --load old --finetune --no-load-optim --no-load-rng");
  EXPECT_EQ(tuned.checkpoint.load, "old");
  EXPECT_TRUE(tuned.checkpoint.finetune);
  EXPECT_FALSE(tuned.checkpoint.load_optimizer);
  const Config pretrained = config("--save new --pretrained-checkpoint old");
  EXPECT_EQ(pretrained.checkpoint.load, "old");
  EXPECT_TRUE(pretrained.checkpoint.finetune);
}

TEST(Translate, FillInTheMiddle) {
  const Config c = config("--fim-data --fim-rate 0.25 --fim-middle-token <MID>");
  EXPECT_EQ(c.data.fim_rate, 0.25);
  EXPECT_EQ(c.data.fim_spm_rate, 0.5);
  EXPECT_EQ(c.data.fim_prefix_token, "<fim_prefix>");
  EXPECT_EQ(c.data.fim_middle_token, "<MID>");
  EXPECT_EQ(config("--fim-rate 0.25").data.fim_rate, 0);
}

TEST(Translate, PrecisionAndScaling) {
  const Config c = config(
      "--fp16 --loss-scale 1024 --initial-loss-scale 65536 --hysteresis 1 "
      "--loss-scale-window 500 --min-loss-scale 2");
  EXPECT_EQ(c.run.precision, Precision::fp16);
  EXPECT_EQ(c.optimizer.loss_scale, 1024);
  EXPECT_EQ(c.optimizer.initial_loss_scale, 65536);
  EXPECT_EQ(c.optimizer.hysteresis, 1);
  EXPECT_EQ(c.optimizer.loss_scale_window, 500);
  EXPECT_EQ(c.optimizer.min_loss_scale, 2);
  EXPECT_EQ(config("--bf16").run.precision, Precision::bf16);
}

}  // namespace
}  // namespace trireme::megatron
