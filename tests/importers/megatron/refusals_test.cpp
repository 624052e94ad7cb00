// What flags do not say, say twice, or say wrongly is noted or refused by name.
#include "importers/megatron/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "importers/megatron/flags/flags.h"
#include "importers/megatron/translated.h"

namespace trireme::megatron {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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
              HasSubstr("--num-layers: 0 is out of range: it must be at least 1"));
  EXPECT_EQ(refusal("--lr fast"), "--lr: 'fast' is not a number");
  EXPECT_THAT(refusal("--lr -1e-4"), HasSubstr("above 0"));
  EXPECT_EQ(refusal("--hidden-dropout 1.5"),
            "--hidden-dropout: 1.5 is out of range: it must be at least 0 and below 1");
  EXPECT_EQ(
      refusal("--lr-decay-style cosin"),
      "--lr-decay-style: 'cosin' is not one of constant, linear, cosine, inverse-square-root, "
      "WSD; did you mean 'cosine'?");
  EXPECT_EQ(
      refusal("--fp16 true"),
      "true: is neither a flag nor the value of a flag; write overrides as section.key=value");
  EXPECT_EQ(refusal("--fp16=true"), "--fp16: takes no value, found 'true'");
  EXPECT_EQ(refusal("--lr"), "--lr: requires a value (X)");
  EXPECT_EQ(refusal("--lr --bf16"), "--lr: requires a value (X)");
  // Variables of a script may be empty on this machine. Megatron fails on an empty list.
  for (const std::string flag : {"--train-data-path", "--valid-data-path", "--test-data-path"})
    EXPECT_THAT(refusal(flag + " --bf16"), HasSubstr(flag + ": requires a value")) << flag;
  EXPECT_EQ(refusal("--step-batch-size-schedule="),
            "--step-batch-size-schedule: is empty: expected TEXT");
  EXPECT_EQ(refusal("--data-path="), "--data-path: is empty: expected TEXT ...");
  EXPECT_THAT(refusal("--num-layers 99999999999999999999"), HasSubstr("is not an integer"));
  EXPECT_THAT(refusal("--seed nan"), HasSubstr("--seed"));
  EXPECT_THAT(refusal("--lr nan"), HasSubstr("out of range"));
  EXPECT_THAT(refusal("--zero-stage 4"), HasSubstr("at most 3"));
}

TEST(Translate, WidthsOfNothingAreNoDefaults) {
  for (const char* flag : {"--ffn-hidden-size", "--kv-channels", "--moe-ffn-hidden-size"})
    EXPECT_THAT(refusal(std::string(flag) + " 0"), HasSubstr("0 is no width")) << flag;
  const std::string latent =
      "--multi-latent-attention --qk-layernorm --normalization RMSNorm --position-embedding-type "
      "rope --rope-type rope ";
  EXPECT_THAT(refusal(latent + "--v-head-dim 0"), HasSubstr("--v-head-dim: 0 is no width"));
  EXPECT_NO_THROW(config("--v-head-dim 0"));
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
      {"--step-batch-size-schedule 0:4", "contradicts --train-iters"},
      {"--swiglu --squared-relu", "contradicts --swiglu"},
      {"--train-data-path a", "contradicts --data-path"},
      {"--recompute-activations --recompute-granularity full", "contradicts"},
      {"--recompute-method uniform", "only with --recompute-granularity full"},
      {"--use-rotary-position-embeddings --position-embedding-type learned_absolute",
       "contradicts --use-rotary"},
      {"--embed-layernorm", "--embed-layernorm: Megatron then normalizes word embeddings before"},
      {"--use-torch-fsdp2 --use-distributed-optimizer", "contradicts --use-torch-fsdp2"},
      {"--zero-stage 2 --use-distributed-optimizer", "contradicts --zero-stage"},
      {"--num-layers-per-virtual-pipeline-stage 1", "requires --pipeline-model-parallel-size"},
      {"--save a --load a --finetune",
       "--finetune: requires a --save folder that differs from --load"},
      {"--encoder-num-layers 3", "both set the same number"},
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
  EXPECT_THAT(refusal("--tokenizer-type NullTokenizer"), HasSubstr("requires --vocab-size"));
  EXPECT_EQ(config("--tokenizer-type Llama2Tokenizer --tokenizer-model t").data.tokenizer,
            "llama2");
  EXPECT_EQ(config("--tokenizer-type HuggingFaceTokenizer --tokenizer-model t.json").data.tokenizer,
            "hf");
}

// The samples of the run decide the order of the data, so the tokens only end it.
TEST(Translate, LengthsInTokensStayBesideTheOthers) {
  const Config c = config(
      "--train-iters 1000 --train-tokens 12_800 --lr-decay-tokens 6400 --lr-warmup-tokens 640");
  EXPECT_EQ(c.train.iters, 1000);
  EXPECT_EQ(c.train.tokens, 12800);
  EXPECT_EQ(c.optimizer.decay_tokens, 6400);
  EXPECT_EQ(c.optimizer.warmup_tokens, 640);
  EXPECT_EQ(c.optimizer.decay_iters, 0);
  EXPECT_EQ(config("--lr-decay-tokens 6400 --lr-warmup-iters 3").optimizer.warmup_iters, 3);
  EXPECT_THAT(refusal("--lr-decay-tokens 6400 --lr-decay-iters 9"),
              HasSubstr("--lr-decay-iters: contradicts --lr-decay-tokens"));
  EXPECT_THAT(refusal("--lr-warmup-tokens 640 --lr-warmup-iters 9 --lr-decay-tokens 6400"),
              HasSubstr("--lr-warmup-iters: contradicts --lr-warmup-tokens"));
  EXPECT_THAT(refusal("--lr-warmup-tokens 640"), HasSubstr("optimizer.decay_tokens"));
}

// One reason where a flag that is not available would have named the data.
TEST(Translate, DataThatIsRefusedIsNotMissing) {
  std::vector<std::string> arguments = words(kSmall + std::string("--data-file-list list.txt"));
  const auto data = std::find(arguments.begin(), arguments.end(), "--data-path");
  arguments.erase(data + 1);  // as a script writes it whose variable is empty
  const Translation translation = translate(arguments, {.lenient = true});
  ASSERT_EQ(translation.lost.size(), 1u);
  EXPECT_EQ(translation.lost[0].flag, "--data-file-list");
  EXPECT_EQ(translation.missing, "");
}

TEST(Translate, StatesInHostMemory) {
  const Translation translation = translated(
      "--cpu-optimizer --remote-device cpu --optimizer-cpu-offload --optimizer-offload-fraction "
      "0.5");
  EXPECT_EQ(to_config(translation).offload.optimizer, OffloadPlace::host);
  EXPECT_THAT(noted(translation), Contains("--optimizer-offload-fraction"));
  EXPECT_THAT(noted(translation), Contains("--cpu-optimizer"));
  EXPECT_THAT(refusal("--remote-device nvme"), HasSubstr("--remote-device: 'nvme'"));
}

TEST(Translate, WhatLayersSave) {
  const Config cut = to_config(translated(
      "--recompute-granularity full --recompute-method uniform --distribute-saved-activations "
      "--cpu-offloading-num-layers 2"));
  EXPECT_TRUE(cut.parallel.distribute_saved_activations);
  EXPECT_EQ(cut.offload.activations, OffloadPlace::host);
  EXPECT_EQ(cut.offload.activation_layers, 2);
  const Translation without = translated("--distribute-saved-activations");
  EXPECT_FALSE(to_config(without).parallel.distribute_saved_activations);
  EXPECT_THAT(noted(without), Contains("--distribute-saved-activations"));
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
  const Translation translation = translated(
      "--mistyped 3 4 --lr $LR --num-experts-switch 8 --fp8-format hybrid --bf16 --fp16 $EXTRA",
      Program::gpt, true);
  std::vector<std::string> lost;
  for (const Note& note : translation.lost) lost.push_back(note.flag);
  EXPECT_THAT(lost, ElementsAre("--mistyped", "--lr", "--num-experts-switch", "$EXTRA", "--fp16",
                                "--fp8-format"));
  EXPECT_EQ(to_config(translation).run.precision, Precision::bf16);
}

}  // namespace
}  // namespace trireme::megatron
