// Flags become the configuration that means the same; what is wrong is named.
#include "megatron/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "megatron/flags.h"

namespace trireme::megatron {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

constexpr const char* kSmall =
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32 --micro-batch-size 2 --lr 1e-3 --train-iters 20 "
    "--data-path corpus --vocab-file vocab.json --merge-file merges.txt ";

Translation translated(const std::string& more, Program program = Program::gpt,
                       bool lenient = false) {
  return translate(words(kSmall + more), {.program = program, .lenient = lenient});
}

Config config(const std::string& more, Program program = Program::gpt) {
  Config result = to_config(translated(more, program));
  check(result);
  return result;
}

// The message with which flags are refused as bad input.
std::string refusal_of(const std::vector<std::string>& arguments, Program program = Program::gpt) {
  try {
    check(to_config(translate(arguments, {.program = program})));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

std::string refusal(const std::string& more, Program program = Program::gpt) {
  return refusal_of(words(kSmall + more), program);
}

std::vector<std::string> noted(const Translation& translation) {
  std::vector<std::string> flags;
  for (const Note& note : translation.notes) flags.push_back(note.flag);
  return flags;
}

TEST(Translate, AbsentFlagsMeanMegatronsDefaults) {
  const Config c = config("");
  EXPECT_EQ(c.run.precision, "fp32");
  EXPECT_EQ(c.run.seed, 1234);
  EXPECT_EQ(c.model.family, "gpt");
  EXPECT_EQ(c.model.position, "learned");
  EXPECT_EQ(c.model.norm, "layer_norm");
  EXPECT_EQ(c.model.norm_eps, 1e-5);
  EXPECT_EQ(c.model.activation, "gelu_tanh");
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
  EXPECT_EQ(c.optimizer.name, "adamw");
  EXPECT_EQ(c.optimizer.decay_style, "linear");
  EXPECT_EQ(c.optimizer.min_lr, 0);
  EXPECT_EQ(c.optimizer.beta1, 0.9);
  EXPECT_EQ(c.optimizer.beta2, 0.999);
  EXPECT_EQ(c.optimizer.eps, 1e-8);
  EXPECT_EQ(c.optimizer.weight_decay, 0.01);
  EXPECT_EQ(c.optimizer.clip_grad, 1.0);
  EXPECT_EQ(c.optimizer.initial_loss_scale, 4294967296.0);
  EXPECT_EQ(c.parallel.zero, 0);
  EXPECT_EQ(c.parallel.recompute, "none");
}

TEST(Translate, BertHasItsOwnDefaults) {
  const Config c = config("--mask-prob 0.2", Program::bert);
  EXPECT_EQ(c.model.family, "bert");
  EXPECT_EQ(c.data.tokenizer, "bert");
  EXPECT_EQ(c.data.mask_prob, 0.2);
  EXPECT_EQ(c.data.short_seq_prob, 0.1);
  EXPECT_TRUE(c.model.order_head);
  // What our family bert would take otherwise.
  EXPECT_EQ(c.model.norm_eps, 1e-5);
  EXPECT_EQ(c.model.activation, "gelu_tanh");
  EXPECT_FALSE(config("--bert-no-binary-head", Program::bert).model.order_head);
  EXPECT_THAT(noted(translated("--mask-prob 0.2")), ::testing::Contains("--mask-prob"));
}

TEST(Translate, ModelFlags) {
  const Config c = config(
      "--swiglu --normalization RMSNorm --norm-epsilon 1e-6 --disable-bias-linear --add-qkv-bias "
      "--untie-embeddings-and-output-weights --group-query-attention --num-query-groups 2 "
      "--position-embedding-type rope --rotary-base 500000 --rotary-percent 0.5 --kv-channels 32 "
      "--ffn-hidden-size 96 --make-vocab-size-divisible-by 64 --init-method-std 0.01 "
      "--hidden-dropout 0.0 --attention-dropout 0");
  EXPECT_EQ(c.model.family, "llama");
  EXPECT_EQ(c.model.activation, "swiglu");
  EXPECT_EQ(c.model.norm, "rms_norm");
  EXPECT_EQ(c.model.norm_eps, 1e-6);
  EXPECT_FALSE(c.model.bias);
  EXPECT_TRUE(c.model.qkv_bias);
  EXPECT_FALSE(c.model.tie_embeddings);
  EXPECT_EQ(c.model.num_kv_heads, 2);
  EXPECT_EQ(c.model.position, "rope");
  EXPECT_EQ(c.model.rope_base, 500000);
  EXPECT_EQ(c.model.rope_percent, 0.5);
  EXPECT_EQ(c.model.head_dim, 32);
  EXPECT_EQ(c.model.ffn_hidden_size, 96);
  EXPECT_EQ(c.model.vocab_multiple, 64);
  EXPECT_EQ(c.model.init_std, 0.01);
  EXPECT_EQ(c.model.hidden_dropout, 0);
  EXPECT_EQ(c.model.attention_dropout, 0);
}

TEST(Translate, ActivationFollowsTheKernelThatMegatronTakes) {
  EXPECT_EQ(config("--no-bias-gelu-fusion").model.activation, "gelu_erf");
  EXPECT_EQ(config("--disable-bias-linear").model.activation, "gelu_erf");
  EXPECT_EQ(config("--openai-gelu --no-bias-gelu-fusion").model.activation, "gelu_tanh");
  EXPECT_EQ(config("--squared-relu").model.activation, "squared_relu");
}

TEST(Translate, GroupsOfQueries) {
  EXPECT_EQ(config("--group-query-attention").model.num_kv_heads, 1);
  const Translation alone = translated("--num-query-groups 2");
  EXPECT_EQ(to_config(alone).model.num_kv_heads, 4);
  EXPECT_THAT(noted(alone), ::testing::Contains("--num-query-groups"));
}

TEST(Translate, PositionsThatAreNotLearned) {
  EXPECT_EQ(config("--use-rotary-position-embeddings").model.position, "rope");
  EXPECT_EQ(
      config("--use-rotary-position-embeddings --position-embedding-type rope").model.position,
      "rope");
  EXPECT_EQ(config("--no-position-embedding --position-embedding-type rope").model.position,
            "rope");
  EXPECT_EQ(config("--no-position-embedding").model.position, "none");
}

TEST(Translate, ScaledRotaryPositions) {
  const std::string rope = "--position-embedding-type rope ";
  const Config llama3 = config(rope + "--use-rope-scaling");
  EXPECT_EQ(llama3.model.rope_scaling, "llama3");
  EXPECT_EQ(llama3.model.rope_scaling_factor, 8);
  EXPECT_EQ(llama3.model.rope_low_freq_factor, 1);
  EXPECT_EQ(llama3.model.rope_high_freq_factor, 4);
  EXPECT_EQ(llama3.model.rope_original_length, 8192);
  EXPECT_EQ(config(rope + "--use-rope-scaling --rope-scaling-factor 32").model.rope_scaling_factor,
            32);
  const Config linear = config(rope + "--rotary-seq-len-interpolation-factor 4");
  EXPECT_EQ(linear.model.rope_scaling, "linear");
  EXPECT_EQ(linear.model.rope_scaling_factor, 4);
  for (const char* none :
       {"", "--rotary-seq-len-interpolation-factor 1", "--rope-scaling-factor 8"})
    EXPECT_EQ(config(rope + none).model.rope_scaling, "none") << none;
  EXPECT_EQ(config("--use-rope-scaling").model.rope_scaling, "none");
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
              HasSubstr("two names of one number"));
  const Config c =
      config("--activations-checkpoint-method block --activations-checkpoint-num-layers 1");
  EXPECT_EQ(c.parallel.recompute, "full");
  EXPECT_EQ(c.parallel.recompute_layers, 1);
  EXPECT_EQ(config("--activations-checkpoint-method uniform").parallel.recompute, "full");
  const Config glu = config("--glu-activation swiglu");
  EXPECT_EQ(glu.model.activation, "swiglu");
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
      "zb1p");
  EXPECT_EQ(config("--enable-zbh1-pipeline").parallel.schedule, "1f1b");
  EXPECT_THAT(refusal(pipeline + "--enable-zbh1-pipeline --num-layers-per-virtual-pipeline-stage "
                                 "1"),
              HasSubstr("contradicts --enable-zbh1-pipeline"));
}

TEST(Translate, SplitsAndEvaluationsAsMegatronReadsThem) {
  EXPECT_EQ(config("--split '99,1,0'").data.split, "99,1,0");
  EXPECT_EQ(config("--split 949,50,1").data.split, "949,50,1");
  EXPECT_EQ(config("--split [90/8/2]").data.split, "90,8,2");
  const Translation none = translated("--eval-iters -1");
  EXPECT_EQ(to_config(none).train.eval_iters, 0);
  EXPECT_THAT(noted(none), ::testing::Contains("--eval-iters"));
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
              HasSubstr("'some/model' is not a folder here, and models are not downloaded"));
  fs::remove_all(folder);
}

// A run beside them would start with new weights.
TEST(Translate, CheckpointsOfOtherProgramsAreNotIgnored) {
  const fs::path folder = fs::path(::testing::TempDir()) / "trireme_foreign";
  const std::pair<const char*, const char*> cases[] = {
      {"latest_checkpointed_iteration.txt", "a checkpoint of Megatron"},
      {"iter_0001000", "a checkpoint of Megatron (iter_0001000)"},
      {"global_step8000", "a checkpoint of DeepSpeed"},
      {"model.safetensors", "a checkpoint of Hugging Face"},
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

TEST(Deepspeed, ScalesTheLossItself) {
  TranslateOptions options;
  options.read_file = [](const std::string&) -> std::optional<std::string> {
    return R"({"fp16": {"enabled": true, "loss_scale": 0, "hysteresis": 3, "min_loss_scale": 1}})";
  };
  const Translation translation = translate(
      words(kSmall + std::string("--deepspeed_config d --fp16 --loss-scale 12 --hysteresis 2")),
      options);
  EXPECT_EQ(to_config(translation).optimizer.loss_scale, 0);
  EXPECT_EQ(to_config(translation).optimizer.hysteresis, 3);
  EXPECT_THAT(noted(translation), ::testing::IsSupersetOf({"--loss-scale", "--hysteresis"}));
}

TEST(Translate, RunInSamplesWithRampup) {
  const std::vector<std::string> arguments = words(
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 64 --micro-batch-size 2 --global-batch-size 16 --lr 6.0e-4 "
      "--train-samples 1_000 --rampup-batch-size 4 4 100 --lr-decay-samples 900 "
      "--lr-warmup-fraction .05 --lr-decay-style inverse-square-root --data-path .3 a .7 b "
      "--tokenizer-type NullTokenizer --vocab-size 100 --eod-mask-loss");
  const Translation translation = translate(arguments, {});
  const Config c = to_config(translation);
  check(c);
  EXPECT_EQ(c.train.samples, 1000);
  EXPECT_THAT(c.train.rampup_batch_size, ElementsAre(4, 4, 100));
  EXPECT_EQ(c.optimizer.decay_samples, 900);
  EXPECT_EQ(c.optimizer.warmup_fraction, 0.05);
  EXPECT_EQ(c.optimizer.decay_style, "inverse_sqrt");
  EXPECT_THAT(c.data.path, ElementsAre(".3", "a", ".7", "b"));
  EXPECT_EQ(c.data.tokenizer, "null");
  EXPECT_EQ(c.model.vocab_size, 101);
  EXPECT_TRUE(c.data.eod_mask_loss);
  EXPECT_THAT(noted(translation), ::testing::Contains("loss"));
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
  EXPECT_EQ(c.parallel.schedule, "interleaved");
  EXPECT_TRUE(c.parallel.sequence_parallel);
  EXPECT_EQ(c.parallel.zero, 1);
  EXPECT_EQ(c.parallel.recompute, "full");
  EXPECT_EQ(c.parallel.recompute_layers, 3);
  EXPECT_FALSE(config("--sequence-parallel").parallel.sequence_parallel);
  EXPECT_EQ(config("--recompute-activations").parallel.recompute, "selective");
  EXPECT_EQ(config("--checkpoint-activations").parallel.recompute, "full");
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
  EXPECT_EQ(c.run.precision, "fp16");
  EXPECT_EQ(c.optimizer.loss_scale, 1024);
  EXPECT_EQ(c.optimizer.initial_loss_scale, 65536);
  EXPECT_EQ(c.optimizer.hysteresis, 1);
  EXPECT_EQ(c.optimizer.loss_scale_window, 500);
  EXPECT_EQ(c.optimizer.min_loss_scale, 2);
  EXPECT_EQ(config("--bf16").run.precision, "bf16");
}

TEST(Translate, EachIgnoredFlagGetsOneNote) {
  const Translation translation = translated(
      "--save s --distributed-backend nccl --data-impl mmap --use-flash-attn "
      "--no-gradient-accumulation-fusion --no-masked-softmax-fusion --use-mcore-models "
      "--transformer-impl local --local-rank 0 --use-flash-attn --no-bias-gelu-fusion "
      "--distributed-timeout-minutes 30");
  EXPECT_THAT(noted(translation),
              ::testing::UnorderedElementsAre(
                  "--distributed-backend", "--data-impl", "--use-flash-attn",
                  "--no-gradient-accumulation-fusion", "--no-masked-softmax-fusion",
                  "--use-mcore-models", "--transformer-impl", "--local-rank",
                  "--no-bias-gelu-fusion", "--distributed-timeout-minutes"));
  EXPECT_EQ(to_config(translation).train.timeout_s, 1800);
}

TEST(Translate, EveryIgnoredFlagIsAcceptedWithItsNote) {
  for (const Flag& flag : all_flags()) {
    if (flag.fate != Fate::ignored) continue;
    const Translation translation = translated(flag.name + (flag.kind == Kind::none ? "" : " 1"));
    EXPECT_THAT(noted(translation), ::testing::Contains(flag.name));
    EXPECT_FALSE(flag.text.empty()) << flag.name;
  }
}

TEST(Translate, RefusedFlagsSayWhyUnlessTheyChangeNothing) {
  EXPECT_THAT(refusal("--num-experts 8"), HasSubstr("--num-experts: '8': mixtures of experts"));
  EXPECT_NO_THROW(config("--num-experts 1"));
  EXPECT_NO_THROW(config("--dataloader-type single"));
  for (const Flag& flag : all_flags()) {
    if (flag.fate != Fate::refused) continue;
    EXPECT_THAT(refusal(flag.name + (flag.kind == Kind::none ? "" : " 77")), HasSubstr(flag.name));
  }
}

TEST(Translate, UnknownFlagsNameTheNearest) {
  EXPECT_EQ(refusal("--num-layer 3"),
            "--num-layer: unknown flag of pretrain-gpt; did you mean '--num-layers'?");
  EXPECT_THAT(refusal("--micro_batch_size 3"), HasSubstr("did you mean '--micro-batch-size'?"));
  EXPECT_THAT(refusal("--quite-another-thing"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(refusal("-x"), HasSubstr("unknown flag"));
}

TEST(Translate, WrongValuesNameFlagValueAndWhatIsAllowed) {
  EXPECT_EQ(refusal("--num-layers two"), "--num-layers: 'two' is not an integer");
  EXPECT_EQ(refusal("--num-layers 2.5"), "--num-layers: '2.5' is not an integer");
  EXPECT_THAT(refusal("--num-layers 0"),
              HasSubstr("--num-layers: 0 is out of range; it must be at least 1"));
  EXPECT_EQ(refusal("--lr fast"), "--lr: 'fast' is not a number");
  EXPECT_THAT(refusal("--lr -1e-4"), HasSubstr("above 0"));
  EXPECT_EQ(refusal("--hidden-dropout 1.5"),
            "--hidden-dropout: 1.5 is out of range; it must be at least 0 and below 1");
  EXPECT_EQ(
      refusal("--lr-decay-style cosin"),
      "--lr-decay-style: 'cosin' is not one of constant, linear, cosine, inverse-square-root, "
      "WSD; did you mean 'cosine'?");
  EXPECT_EQ(
      refusal("--fp16 true"),
      "true: is neither a flag nor the value of one; overrides are written section.key=value");
  EXPECT_EQ(refusal("--fp16=true"), "--fp16: takes no value, found 'true'");
  EXPECT_EQ(refusal("--lr"), "--lr: lacks its value (X)");
  EXPECT_EQ(refusal("--lr --bf16"), "--lr: lacks its value (X)");
  EXPECT_THAT(refusal("--num-layers 99999999999999999999"), HasSubstr("is not an integer"));
  EXPECT_THAT(refusal("--seed nan"), HasSubstr("--seed"));
  EXPECT_THAT(refusal("--lr nan"), HasSubstr("out of range"));
  EXPECT_THAT(refusal("--zero-stage 4"), HasSubstr("at most 3"));
}

TEST(Translate, MissingFlagsAreNamedTogether) {
  const std::string message = refusal_of(words("--num-layers 2"));
  EXPECT_THAT(message, AllOf(HasSubstr("--hidden-size"), HasSubstr("--train-iters"),
                             HasSubstr("--data-path"), Not(HasSubstr("--num-layers,"))));
}

TEST(Translate, FlagsThatContradictEachOtherAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"--fp16 --bf16", "--fp16: contradicts --bf16"},
      {"--train-samples 100", "--train-samples: contradicts --train-iters"},
      {"--lr-decay-samples 100", "--lr-decay-samples: contradicts --train-iters"},
      {"--lr-warmup-fraction .1 --lr-warmup-iters 5", "contradicts --lr-warmup-fraction"},
      {"--rampup-batch-size 2 2 10", "contradicts --train-iters"},
      {"--swiglu --squared-relu", "contradicts --swiglu"},
      {"--train-data-path a", "contradicts --data-path"},
      {"--recompute-activations --recompute-granularity full", "contradicts"},
      {"--recompute-method uniform", "only with --recompute-granularity full"},
      {"--use-rotary-position-embeddings --position-embedding-type learned_absolute",
       "contradicts --use-rotary"},
      {"--use-torch-fsdp2 --use-distributed-optimizer", "contradicts --use-torch-fsdp2"},
      {"--zero-stage 2 --use-distributed-optimizer", "contradicts --zero-stage"},
      {"--num-layers-per-virtual-pipeline-stage 1", "needs --pipeline-model-parallel-size"},
      {"--save a --load a --finetune", "--finetune: needs a --save that is not --load"},
      {"--encoder-num-layers 3", "two names of one number"},
      {"--pipeline-model-parallel-size 2 --no-pipeline-parallel", "--no-pipeline-parallel"},
      {"--max-position-embeddings 16", "model.max_positions is --max-position-embeddings"},
      {"--hidden-size 63", "model.hidden_size is --hidden-size"},
      {"--min-lr 1", "optimizer.min_lr is --min-lr"},
      {"--global-batch-size 3", "train.global_batch_size is --global-batch-size"},
  };
  for (const auto& [flags, message] : cases) EXPECT_THAT(refusal(flags), HasSubstr(message));
}

TEST(Translate, ContradictionsComeBeforeWhatIsMissing) {
  EXPECT_THAT(refusal_of(words("--fp16 --bf16")), HasSubstr("--fp16: contradicts --bf16"));
}

TEST(Translate, TokenizersNeedTheirFiles) {
  EXPECT_THAT(refusal("--tokenizer-type Llama2Tokenizer"), HasSubstr("needs --tokenizer-model"));
  EXPECT_THAT(refusal("--tokenizer-type NullTokenizer"), HasSubstr("needs --vocab-size"));
  EXPECT_EQ(config("--tokenizer-type Llama2Tokenizer --tokenizer-model t").data.tokenizer,
            "llama2");
  EXPECT_EQ(config("--tokenizer-type HuggingFaceTokenizer --tokenizer-model t.json").data.tokenizer,
            "hf");
}

TEST(Translate, LengthsInTokensAreDivided) {
  const Translation translation = translated(
      "--train-iters 1000 --global-batch-size 4 --train-tokens 12800 --lr-decay-tokens 6400 "
      "--lr-warmup-tokens 640");
  const Config c = to_config(translation);
  EXPECT_EQ(c.train.iters, 100);
  EXPECT_EQ(c.optimizer.decay_iters, 50);
  EXPECT_EQ(c.optimizer.warmup_iters, 5);
  EXPECT_THAT(refusal("--train-tokens 100"), HasSubstr("--global-batch-size"));
}

TEST(Translate, OverridesWinAndStandInTheToml) {
  const Translation translation = translated("train.iters=7 run.dir=elsewhere --bf16");
  EXPECT_EQ(to_config(translation).train.iters, 7);
  EXPECT_EQ(parse_config(to_toml(translation), "t").run.dir, "elsewhere");
  EXPECT_THAT(refusal("train.itres=7"), HasSubstr("did you mean \"train.iters\""));
}

TEST(Translate, TomlMeansTheSame) {
  for (const char* more :
       {"", "--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope",
        "--bf16 --data-path 0.3 a 0.7 b --save \"q\\", "train.iters=9 model.bias=false"}) {
    const Translation translation = translated(more);
    const Config again = parse_config(to_toml(translation), "again");
    EXPECT_EQ(trireme::to_toml(again), trireme::to_toml(to_config(translation))) << more;
  }
}

TEST(Translate, TheLastOfSeveralCounts) {
  EXPECT_EQ(config("--num-layers 4 --num-layers=6").model.num_layers, 6);
}

TEST(Translate, LenientCollectsWhatIsWrong) {
  const Translation translation =
      translated("--mistyped 3 4 --lr $LR --num-experts 8 --fp8-format hybrid --bf16 --fp16 $EXTRA",
                 Program::gpt, true);
  std::vector<std::string> lost;
  for (const Note& note : translation.lost) lost.push_back(note.flag);
  EXPECT_THAT(
      lost, ElementsAre("--mistyped", "--lr", "--num-experts", "--fp8-format", "$EXTRA", "--fp16"));
  EXPECT_EQ(to_config(translation).run.precision, "bf16");
}

TEST(Deepspeed, FillsWhatFlagsDoNotSay) {
  TranslateOptions options;
  options.read_file = [](const std::string& path) -> std::optional<std::string> {
    if (path != "ds.json") return std::nullopt;
    return R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, // a comment
               "gradient_clipping": 0.5, "zero_optimization": {"stage": 2},
               "bf16": {"enabled": false}, "steps_per_print": "auto",
               "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12}})";
  };
  const auto read = [&](const std::string& more) {
    return to_config(translate(words(kSmall + more), options));
  };
  const Config c = read("--deepspeed --deepspeed_config ds.json");
  EXPECT_EQ(c.train.global_batch_size, 16);
  EXPECT_EQ(c.optimizer.clip_grad, 0.5);
  EXPECT_EQ(c.parallel.zero, 2);
  EXPECT_EQ(c.run.precision, "fp16");
  EXPECT_EQ(c.optimizer.initial_loss_scale, 4096);
  EXPECT_THROW(read("--deepspeed_config none.json"), Error);
  EXPECT_THROW(read("--deepspeed_config ds.json --micro-batch-size 4"), Error);
}

// What a DeepSpeed configuration with this text becomes.
Translation with_deepspeed(const std::string& json, const std::string& flags,
                           bool lenient = false) {
  TranslateOptions options;
  options.lenient = lenient;
  options.read_file = [&](const std::string&) { return std::optional<std::string>(json); };
  return translate(words(kSmall + flags), options);
}

std::string deepspeed_refusal(const std::string& json, const std::string& flags) {
  try {
    check(to_config(with_deepspeed(json, "--deepspeed_config ds.json " + flags)));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(Deepspeed, ContradictionsNameFlagAndKey) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {R"({"train_batch_size": 16})", "--global-batch-size 8",
       "--global-batch-size: 8 contradicts train_batch_size = 16 in ds.json"},
      {R"({"train_micro_batch_size_per_gpu": 4})", "",
       "--micro-batch-size: 2 contradicts train_micro_batch_size_per_gpu = 4 in ds.json"},
      {R"({"zero_optimization": {"stage": 3}})", "--zero-stage 1",
       "--zero-stage: 1 contradicts zero_optimization.stage = 3 in ds.json"},
      {R"({"gradient_clipping": 0.5})", "--clip-grad 1.0",
       "--clip-grad: 1.0 contradicts gradient_clipping = 0.5 in ds.json"},
      {R"({"fp16": {"enabled": true}})", "--bf16",
       "--bf16: contradicts fp16.enabled = true in ds.json"},
      {R"({"bf16": {"enabled": false}})", "--bf16",
       "--bf16: contradicts bf16.enabled = false in ds.json"},
      {R"({"bfloat16": {"enabled": true}})", "--fp16",
       "--fp16: contradicts bfloat16.enabled = true in ds.json"},
      {R"({"train_batch_size": "16"})", "", "train_batch_size in ds.json is the string \"16\""},
      {R"({"gradient_accumulation_steps": 4})", "", "give --global-batch-size"},
      {R"({"zero_optimization": {"offload_optimizer": {"device": "cpu"}}})", "",
       "zero_optimization.offload_optimizer.device in ds.json is the string \"cpu\""},
      {R"({"zero_optimization": true})", "", "zero_optimization in ds.json is true, not an object"},
      {R"({"zero_optimization": {"offload_param": true}})", "",
       "zero_optimization.offload_param in ds.json is true, not an object"},
      {R"({"zero_optimization": {"offload_param": {"device": 1}}})", "",
       "zero_optimization.offload_param.device in ds.json is the number 1"},
      {R"({"bf16": {"enabled": "true"}})", "",
       "bf16.enabled in ds.json is the string \"true\", not true or false"},
      {R"({"bf16": {"enabled": false}, "bfloat16": {"enabled": true}})", "--bf16",
       "--bf16: contradicts bf16.enabled = false in ds.json"},
      {R"({"fp16": {"enabled": true, "initial_scale_power": 65}})", "",
       "fp16.initial_scale_power in ds.json is the number 65, not a number from 0 to 64"},
      {R"({"gradient_accumulation_steps": "2"})", "",
       "gradient_accumulation_steps in ds.json is the string \"2\", not a number"},
      {R"({"curriculum_learning": {"enabled": 1}})", "",
       "curriculum_learning.enabled in ds.json is the number 1, not true or false"},
      {R"({"curriculum_learning": true})", "",
       "curriculum_learning in ds.json is true, not an object"},
      {R"({"data_efficiency": {"enabled": "yes"}})", "",
       "data_efficiency.enabled in ds.json is the string \"yes\", not true or false"},
      {R"({"train_batch_size": 16,})", "",
       "'ds.json' is not JSON: line 1, column 25: expected a key in double quotes"},
  };
  for (const auto& [json, flags, message] : cases)
    EXPECT_THAT(deepspeed_refusal(json, flags), HasSubstr(message)) << json;
  EXPECT_EQ(deepspeed_refusal(R"({"train_batch_size": "auto", "bf16": {"enabled": true},
                                  "fp16": {"enabled": "auto"}, "data_efficiency": null,
                                  "zero_optimization": {"offload_optimizer": {"device": "none"}},
                                  "gradient_clipping": 1.0, "gradient_accumulation_steps": 1})",
                              "--bf16 --clip-grad 1.0"),
            "accepted");
}

TEST(Deepspeed, NamesWhatItDoesNotRead) {
  const Translation translation = with_deepspeed(
      R"({"steps_per_print": 10, "wall_clock_breakdown": true, "optimizer": {"type": "Adam"},
          "fp16": {"enabled": false, "consecutive_hysteresis": true},
          "zero_optimization": {"stage": 1, "overlap_comm": true,
                                "offload_param": {"device": "none", "pin_memory": true}},
          "curriculum_learning": {"enabled": false, "schedule_config": {"root": 2}}})",
      "--deepspeed_config ds.json");
  const auto note = std::ranges::find(translation.notes, "--deepspeed_config", &Note::flag);
  ASSERT_NE(note, translation.notes.end());
  EXPECT_EQ(note->text,
            "not read in ds.json: curriculum_learning.schedule_config.root, "
            "fp16.consecutive_hysteresis, optimizer, steps_per_print, wall_clock_breakdown, "
            "zero_optimization.offload_param.pin_memory, zero_optimization.overlap_comm");
}

// A file with this section, for runs of --seq-length 32.
std::string curriculum_file(const std::string& more) {
  return R"({"curriculum_learning": {"curriculum_type": "seqlen", "min_difficulty": 8,
             "max_difficulty": 32, )" +
         more + "}}";
}
constexpr const char* kLinear =
    R"("schedule_type": "fixed_linear",
       "schedule_config": {"total_curriculum_step": 150, "difficulty_step": 8})";

TEST(Deepspeed, CurriculumOfLengths) {
  const std::string flag = "--deepspeed_config ds.json --curriculum-learning-legacy";
  const std::string on = R"("enabled": true, )";
  for (const std::string& enabled : {on, std::string()}) {
    const Config c = to_config(with_deepspeed(curriculum_file(enabled + kLinear), flag));
    check(c);
    EXPECT_EQ(c.curriculum.schedule, "fixed_linear");
    EXPECT_EQ(c.curriculum.min_length, 8);
    EXPECT_EQ(c.curriculum.iters, 150);
    EXPECT_EQ(c.curriculum.length_step, 8);
  }
  const Config root = to_config(
      with_deepspeed(curriculum_file(on + R"("schedule_type": "fixed_root", "schedule_config":
                      {"total_curriculum_step": 9, "difficulty_step": 16, "root_degree": 2})"),
                     "--deepspeed_config ds.json"));
  EXPECT_EQ(root.curriculum.schedule, "fixed_root");
  EXPECT_EQ(root.curriculum.root_degree, 2);
  // Neither the flag nor the file turns it on, and a file that turns it off does not.
  for (const char* enabled : {"", R"("enabled": false, )"}) {
    const Config off = to_config(with_deepspeed(curriculum_file(enabled + std::string(kLinear)),
                                                "--deepspeed_config ds.json"));
    EXPECT_EQ(off.curriculum.schedule, "none");
  }
}

TEST(Deepspeed, CurriculaThatAreNotThere) {
  const std::string on = R"("enabled": true, )";
  const auto refused = [](const std::string& json, const std::string& flags = "") {
    return deepspeed_refusal(json, flags);
  };
  const std::string flag = "--curriculum-learning-legacy";
  EXPECT_THAT(refused(curriculum_file(R"("enabled": false, )" + std::string(kLinear)), flag),
              HasSubstr(flag + ": contradicts curriculum_learning.enabled = false in ds.json"));
  EXPECT_THAT(refused("{}", flag), HasSubstr("'ds.json' has no section curriculum_learning"));
  EXPECT_THAT(refused(R"({"curriculum_learning": 3})", flag),
              HasSubstr("the number 3, not an obj"));
  EXPECT_THAT(refused(curriculum_file(on + kLinear), "--seq-length 16"),
              HasSubstr("curriculum_learning.max_difficulty in ds.json is the number 32, but "
                        "--seq-length is 16"));
  EXPECT_THAT(refused(curriculum_file(on + R"("schedule_type": "fixed_discrete")")),
              HasSubstr("the string \"fixed_discrete\", but only fixed_linear and fixed_root"));
  EXPECT_THAT(refused(curriculum_file(on + R"("schedule_type": "fixed_linear")")),
              HasSubstr("curriculum_learning in ds.json lacks 'schedule_config'"));
  EXPECT_THAT(refused(curriculum_file(on + R"("schedule_type": "fixed_linear", "schedule_config":
                                      {"total_curriculum_step": "9"})")),
              HasSubstr("curriculum_learning.schedule_config.total_curriculum_step in ds.json is "
                        "the string \"9\", not a whole number"));
  EXPECT_THAT(refused(curriculum_file(on + R"("schedule_type": "fixed_linear", "schedule_config":
                                      {"total_curriculum_step": 9, "difficulty_step": 48})")),
              HasSubstr("curriculum.min_length is --deepspeed_config"));
  EXPECT_THAT(refused(R"({"data_efficiency": {"enabled": true}})"), HasSubstr("data_efficiency"));
  EXPECT_THAT([&] { translate(words(kSmall + flag), {}); },
              ::testing::ThrowsMessage<Error>(HasSubstr("needs --deepspeed_config FILE")));
}

TEST(Deepspeed, RefusesWhatIsNoConfiguration) {
  for (const char* text :
       {"", "[", "[]", "{\"zero_optimization\": {\"stage\": 9}}", "{\"train_batch_size\": -1}"}) {
    TranslateOptions options;
    options.read_file = [&](const std::string&) { return std::optional<std::string>(text); };
    EXPECT_THROW(translate(words(std::string(kSmall) + "--deepspeed_config x"), options), Error)
        << text;
  }
}

}  // namespace
}  // namespace trireme::megatron
