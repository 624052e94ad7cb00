// What DeepSpeed reads, checks and fills in.
#include <gmock/gmock.h>

#include <algorithm>

#include "importers/settings/fixture.h"

namespace trireme::settings {
namespace {

using testing::HasSubstr;

class DeepSpeedFile : public Settings {
 protected:
  // A file with a batch, and more.
  static std::string with(const std::string& more) {
    return R"({"train_batch_size": 256, "bf16": {"enabled": true})" + more + "}";
  }
  static std::string schedule(const std::string& type, const std::string& more) {
    return with(
        R"(, "optimizer": {"type": "AdamW", "params": {"lr": 2e-4}}, "scheduler": {"type": ")" +
        type + R"(", "params": {"warmup_type": "linear")" + more + "}}");
  }
};

TEST_F(DeepSpeedFile, IsHjson) {
  const SettingsFile file =
      read("ds.json",
           "{\n  # as hjson\n  \"train_batch_size\": 256,\n  bf16: {\"enabled\": true,},\n}", 8);
  EXPECT_EQ(lost(file), "");
  EXPECT_EQ(config(file).train.global_batch_size, 256);
  EXPECT_EQ(config(file).run.precision, Precision::bf16);
  const SettingsFile plain = read("ds.hjson", "train_batch_size: 256\nbf16: {enabled: true}\n", 8);
  EXPECT_EQ(config(plain).train.global_batch_size, 256);
  EXPECT_THAT(
      refusal("ds.json",
              with(R"(, "zero_optimization": {"stage": 3}, "zero_optimization": {"stage": 1})")),
      HasSubstr("duplicate key 'zero_optimization'"));
  EXPECT_THAT(refusal("ds.json", with(R"(, "zero_optimization": {"stage": 3, "stage": 1})")),
              HasSubstr("duplicate key 'stage'"));
}

TEST_F(DeepSpeedFile, BatchesThatContradictEachOtherAreRefused) {
  const auto batch = [](const std::string& sizes) {
    return "{" + sizes + ", \"bf16\": {\"enabled\": true}}";
  };
  const std::string micro = "\"train_micro_batch_size_per_gpu\": 4",
                    steps = "\"gradient_accumulation_steps\": ";
  EXPECT_THAT(refusal("ds.json", with(", " + micro + ", " + steps + "3"), 8),
              HasSubstr("train_batch_size is 256, but train_micro_batch_size_per_gpu x "
                        "gradient_accumulation_steps x ranks is 4 x 3 x 8 = 96"));
  EXPECT_THAT(refusal("ds.json", with(", " + micro), 3), HasSubstr("4 x 21 x 3 = 252"));
  EXPECT_THAT(refusal("ds.json", with(", " + steps + "3"), 8), HasSubstr("8 ranks x 3"));
  EXPECT_THAT(refusal("ds.json", with(", " + micro + ", " + steps + "3")),
              HasSubstr("not a multiple of"));
  EXPECT_THAT(refusal("ds.json", with(""), 7), HasSubstr("is not a multiple of 7 ranks"));
  EXPECT_THAT(refusal("ds.json", with(", " + steps + "0"), 8), HasSubstr("is 0, not above 0"));

  EXPECT_EQ(
      config(read("ds.json", with(", " + micro + ", " + steps + "8"), 8)).train.micro_batch_size,
      4);
  const Config given = config(read("ds.json", batch(micro + ", " + steps + "3"), 8));
  EXPECT_EQ(given.train.global_batch_size, 96);
  EXPECT_EQ(config(read("ds.json", batch(micro), 8)).train.global_batch_size, 32);
  EXPECT_THAT(lost(read("ds.json", batch(micro + ", " + steps + "3"))),
              HasSubstr("gradient_accumulation_steps is 3, so the global batch size depends"));
  // Ranks that share samples.
  const Config split = config(
      read("ds.json",
           with(", \"tensor_parallel\": {\"autotp_size\": 2}, " + micro + ", " + steps + "16"), 8));
  EXPECT_EQ(split.parallel.tp, 2);
  EXPECT_EQ(split.train.global_batch_size, 256);
}

// A number that the program fills in is not 1.
TEST_F(DeepSpeedFile, ABatchThatTheProgramDecidesIsNotMadeUp) {
  const auto has_batch = [&](const std::string& sizes) {
    const SettingsFile file = read(
        "ds.json",
        "{\"train_micro_batch_size_per_gpu\": 4, \"bf16\": {\"enabled\": true}" + sizes + "}", 8);
    return std::ranges::any_of(file.translation.settings, [](const auto& setting) {
      return setting.key == "train.global_batch_size";
    });
  };
  EXPECT_TRUE(has_batch(""));
  EXPECT_TRUE(has_batch(R"(, "train_batch_size": "auto", "gradient_accumulation_steps": 2)"));
  EXPECT_FALSE(has_batch(R"(, "gradient_accumulation_steps": "auto")"));
  EXPECT_FALSE(has_batch(R"(, "train_batch_size": "auto")"));
}

TEST_F(DeepSpeedFile, NamesOfOptimizersAreComparedInLowerCase) {
  const auto optimizer = [&](const std::string& type, const std::string& more) {
    return read(
        "ds.json",
        with(R"(, "optimizer": {"type": ")" + type + R"(", "params": {"lr": 2e-4)" + more + "}}"),
        8);
  };
  const SettingsFile file = optimizer("adamw", ", \"betas\": [0.9, 0.95]");
  EXPECT_EQ(lost(file), "");
  EXPECT_EQ(config(file).optimizer.name, OptimizerKind::adamw);
  EXPECT_EQ(config(file).optimizer.lr, 2e-4);
  EXPECT_EQ(config(file).optimizer.beta2, 0.95);
  EXPECT_EQ(config(optimizer("Adam", "")).optimizer.name, OptimizerKind::adamw);
  EXPECT_EQ(config(optimizer("ADAM", ", \"adam_w_mode\": false")).optimizer.name,
            OptimizerKind::adam);
  EXPECT_EQ(config(optimizer("AdamW", ", \"adam_w_mode\": false")).optimizer.name,
            OptimizerKind::adamw);
  EXPECT_EQ(config(optimizer("Adam", "")).optimizer.weight_decay, 0);
  EXPECT_EQ(config(optimizer("Adam", ", \"torch_adam\": true")).optimizer.weight_decay, 0.01);
  EXPECT_EQ(config(optimizer("Adam", ", \"torch_adam\": true, \"adam_w_mode\": false"))
                .optimizer.weight_decay,
            0);
  // With what is not read, its parameters are lost in one piece.
  EXPECT_EQ(optimizer("OneBitAdam", ", \"freeze_step\": 3").translation.lost.size(), 1u);
  EXPECT_EQ(config(read("ds.json", with(R"(, "optimizer": {"type": "AdamW"})"), 8)).optimizer.lr,
            1e-3);
}

TEST_F(DeepSpeedFile, SchedulesHaveTheirOwnDefaults) {
  const Config one = config(read(
      "ds.json", schedule("WarmupLR", ", \"warmup_num_steps\": 1, \"warmup_max_lr\": 3e-4"), 8));
  EXPECT_EQ(one.optimizer.warmup_iters, 2);
  EXPECT_EQ(one.optimizer.lr, 3e-4);  // of each step, whatever the optimizer's is
  EXPECT_EQ(one.optimizer.warmup_init_lr, 0);
  EXPECT_EQ(one.optimizer.decay_style, DecayStyle::constant);
  EXPECT_THAT(refusal("ds.json", schedule("WarmupLR", ", \"warmup_num_steps\": 0"), 8),
              HasSubstr("warmup_num_steps is 0, but DeepSpeed requires a number above 0"));
  EXPECT_EQ(config(read("ds.json", schedule("WarmupLR", ""), 8)).optimizer.warmup_iters, 1000);
  EXPECT_EQ(config(read("ds.json", schedule("WarmupLR", ""), 8)).optimizer.lr, 2e-4);

  const Config decay = config(
      read("ds.json",
           schedule("WarmupDecayLR", ", \"total_num_steps\": 5000, \"warmup_min_lr\": 1e-5"), 8));
  EXPECT_EQ(decay.optimizer.lr, 1e-3);
  EXPECT_EQ(decay.optimizer.min_lr, 1e-5);
  EXPECT_EQ(decay.optimizer.decay_style, DecayStyle::linear);
  EXPECT_EQ(decay.optimizer.decay_iters, 5000);
  EXPECT_THAT(refusal("ds.json", schedule("WarmupDecayLR", ""), 8),
              HasSubstr("total_num_steps is not set"));

  const Config cosine = config(read(
      "ds.json",
      schedule("WarmupCosineLR", ", \"total_num_steps\": 5000, \"warmup_min_ratio\": 0.5"), 8));
  EXPECT_EQ(cosine.optimizer.lr, 2e-4);
  EXPECT_EQ(cosine.optimizer.warmup_init_lr, 1e-4);
  EXPECT_DOUBLE_EQ(cosine.optimizer.min_lr, 2e-8);
  EXPECT_EQ(cosine.optimizer.decay_style, DecayStyle::cosine);
}

// A key in one word with a dot is not the key in the section.
TEST_F(DeepSpeedFile, KeysOfOtherShapesAreNamed) {
  EXPECT_THAT(lost(read("ds.json", with(R"(, "a\nb": "c\nd")"), 8)),
              HasSubstr("a b is 'c d', but"));
  EXPECT_THAT(lost(read("ds.json", with(R"(, "fp16.enabled": true)"), 8)),
              HasSubstr("fp16.enabled is true"));
  EXPECT_THAT(lost(read("ds.json", with(R"(, "fp16": true)"), 8)),
              HasSubstr("fp16 is true, not a table"));
  EXPECT_THAT(lost(read("ds.json", with(R"(, "quantum": null)"), 8)),
              HasSubstr("quantum is null, but"));
  EXPECT_THAT(noted(read("ds.json",
                         with(R"(, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}})"), 8)),
              HasSubstr("optimizer.params.lr is 'auto'"));
  EXPECT_THAT(lost(read("ds.json", with(R"(, "bfloat16": {"enabled": true})"), 8)),
              HasSubstr("bfloat16 has no effect in DeepSpeed in addition to bf16"));
}

}  // namespace
}  // namespace trireme::settings
