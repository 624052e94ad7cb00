// A configuration file of DeepSpeed next to the flags.
#include "importers/megatron/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "importers/megatron/translated.h"

namespace trireme::megatron {
namespace {

using ::testing::HasSubstr;

// What a DeepSpeed configuration with this text becomes.
Translation with_deepspeed(const std::string& json, const std::string& flags,
                           bool lenient = false) {
  TranslateOptions options;
  options.lenient = lenient;
  options.read_file = [&](const std::string&) { return std::optional<std::string>(json); };
  return translate(words(kSmall + flags), options);
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

// DeepSpeed sees none of Megatron's flags, so its own defaults hold for what its file leaves out.
TEST(Deepspeed, DefaultsAreItsOwn) {
  const OptimizerConfig scaled =
      to_config(with_deepspeed(R"({"fp16": {"enabled": true}})",
                               "--deepspeed_config d --fp16 --loss-scale 15 --hysteresis 4"))
          .optimizer;
  EXPECT_EQ(scaled.loss_scale, 0);
  EXPECT_EQ(scaled.initial_loss_scale, 65536);
  EXPECT_EQ(scaled.loss_scale_window, 1000);
  EXPECT_EQ(scaled.hysteresis, 2);
  // Only what differs from Megatron's default is worth a line.
  EXPECT_THAT(
      noted(with_deepspeed(R"({"fp16": {"enabled": true}})", "--deepspeed_config d --fp16")),
      ::testing::UnorderedElementsAre("--clip-grad", "--initial-loss-scale", "--save"));
  // Without it the flags hold.
  EXPECT_EQ(to_config(with_deepspeed("{}", "--deepspeed_config d --fp16 --loss-scale 15"))
                .optimizer.loss_scale,
            15);
  const Translation clipped = with_deepspeed("{}", "--deepspeed_config d --clip-grad 0.3");
  EXPECT_EQ(to_config(clipped).optimizer.clip_grad, 1);
  EXPECT_THAT(noted(clipped), ::testing::Contains("--clip-grad"));
}

TEST(Deepspeed, StatesInHostMemory) {
  const auto with_stage = [](const std::string& stage) {
    return with_deepspeed(R"({"zero_optimization": {"stage": )" + stage +
                              R"(, "offload_optimizer": {"device": "cpu"},
                                  "offload_param": {"device": "cpu"}}})",
                          "--deepspeed_config ds.json");
  };
  const Config whole = to_config(with_stage("3"));
  EXPECT_EQ(whole.offload.optimizer, OffloadPlace::host);
  EXPECT_EQ(whole.offload.parameters, OffloadPlace::host);
  // DeepSpeed reads the second with stage 3 alone.
  const Translation states = with_stage("2");
  EXPECT_EQ(to_config(states).offload.optimizer, OffloadPlace::host);
  EXPECT_EQ(to_config(states).offload.parameters, OffloadPlace::none);
  EXPECT_THAT(noted(states), ::testing::Contains("--deepspeed_config"));
}

TEST(Deepspeed, StatesOnADisk) {
  const Config c = to_config(with_deepspeed(
      R"({"zero_optimization": {"offload_optimizer": {"device": "nvme", "nvme_path": "/fast"}}})",
      "--deepspeed_config ds.json"));
  EXPECT_EQ(c.offload.optimizer, OffloadPlace::file);
  EXPECT_EQ(c.offload.path, "/fast");
}

TEST(Deepspeed, ParametersOnADisk) {
  const Config c = to_config(with_deepspeed(
      R"({"zero_optimization": {"stage": 3,
                                "offload_optimizer": {"device": "nvme", "nvme_path": "/fast"},
                                "offload_param": {"device": "nvme", "nvme_path": "/fast"}}})",
      "--deepspeed_config ds.json"));
  EXPECT_EQ(c.offload.optimizer, OffloadPlace::file);
  EXPECT_EQ(c.offload.parameters, OffloadPlace::file);
  EXPECT_EQ(c.offload.path, "/fast");
}

TEST(Deepspeed, WhatLayersSave) {
  const char* const json =
      R"({"activation_checkpointing": {"partition_activations": true, "cpu_checkpointing": true}})";
  const Config c =
      to_config(with_deepspeed(json, "--deepspeed_config ds.json --checkpoint-activations"));
  EXPECT_TRUE(c.parallel.distribute_saved_activations);
  EXPECT_EQ(c.offload.activations, OffloadPlace::host);
  // Nothing is recomputed: there is nothing to cut.
  const Translation without = with_deepspeed(json, "--deepspeed_config ds.json");
  EXPECT_FALSE(to_config(without).parallel.distribute_saved_activations);
  EXPECT_THAT(noted(without), ::testing::Contains("--partition-activations"));
}

TEST(Deepspeed, FillsWhatFlagsDoNotSay) {
  TranslateOptions options;
  options.read_file = [](const std::string& path) -> std::optional<std::string> {
    if (path != "ds.json") return std::nullopt;
    return R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, // a comment
               "gradient_clipping": 0.5, "zero_optimization": {"stage": 2},
               "bf16": {"enabled": false},
               "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12}})";
  };
  const auto read = [&](const std::string& more) {
    return to_config(translate(words(kSmall + more), options));
  };
  const Config c = read("--deepspeed --deepspeed_config ds.json");
  EXPECT_EQ(c.train.global_batch_size, 16);
  EXPECT_EQ(c.optimizer.clip_grad, 0.5);
  EXPECT_EQ(c.parallel.zero, 2);
  EXPECT_EQ(c.run.precision, Precision::fp16);
  EXPECT_EQ(c.optimizer.initial_loss_scale, 4096);
  EXPECT_THROW(read("--deepspeed_config none.json"), Error);
  EXPECT_THROW(read("--deepspeed_config ds.json --micro-batch-size 4"), Error);
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
      {R"({"gradient_accumulation_steps": 4})", "", "set --global-batch-size"},
      {R"({"gradient_accumulation_steps": 3, "train_batch_size": 256})", "",
       "gradient_accumulation_steps in ds.json is 3, but a global batch of 256 is not a multiple"},
      {R"({"train_batch_size": 8, "train_batch_size": 16})", "",
       "duplicate key 'train_batch_size'"},
      {R"({"zero_optimization": {"offload_optimizer": {"device": "nvme"}}})", "",
       "zero_optimization.offload_optimizer.device in ds.json is the string \"nvme\""},
      {R"({"zero_optimization": true})", "", "zero_optimization in ds.json is true, not an object"},
      {R"({"zero_optimization": {"offload_param": true}})", "",
       "zero_optimization.offload_param in ds.json is true, not an object"},
      {R"({"zero_optimization": {"offload_param": {"device": 1}}})", "",
       "zero_optimization.offload_param.device in ds.json is the number 1"},
      {R"({"zero_optimization": {"stage": 3,
                                 "offload_optimizer": {"device": "nvme", "nvme_path": "/fast"},
                                 "offload_param": {"device": "nvme", "nvme_path": "/other"}}})",
       "", "all files go to one folder, '/fast'"},
      {R"({"activation_checkpointing": {"partition_activations": 1}})", "",
       "activation_checkpointing.partition_activations in ds.json is the number 1, not true or "
       "false"},
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
      {R"({"train_batch_size": 16, "train_batch_size": 8})", "", "train_batch_size"},
      {R"({"zero_optimization": {"stage": "auto"}})", "",
       "zero_optimization.stage in ds.json is the string \"auto\": only transformers and "
       "accelerate fill it in"},
  };
  for (const auto& [json, flags, message] : cases)
    EXPECT_THAT(deepspeed_refusal(json, flags), HasSubstr(message)) << json;
  EXPECT_EQ(deepspeed_refusal(R"({"train_batch_size": null, "bf16": {"enabled": true},
                                  "fp16": {"enabled": null}, "data_efficiency": null,
                                  "zero_optimization": {"offload_optimizer": {"device": "none"}},
                                  "gradient_clipping": 1.0, "gradient_accumulation_steps": 1})",
                              "--bf16 --clip-grad 1.0"),
            "accepted");
}

TEST(Deepspeed, OneContradictionOfThePrecisionIsNamed) {
  const Translation translation =
      with_deepspeed(R"({"bf16": {"enabled": true}, "fp16": {"enabled": false}})",
                     "--deepspeed_config ds.json --fp16", true);
  ASSERT_EQ(translation.lost.size(), 1u);
  EXPECT_EQ(translation.lost[0].text, "contradicts bf16.enabled = true in ds.json");
}

TEST(Deepspeed, NamesWhatHasNoEffect) {
  const Translation translation = with_deepspeed(
      R"({"steps_per_print": 10, "wall_clock_breakdown": true, "optimizer": {"type": "Adam"},
          "fp16": {"enabled": false, "consecutive_hysteresis": true},
          "zero_optimization": {"stage": 1, "overlap_comm": true,
                                "offload_param": {"device": "none", "pin_memory": true}},
          "aio": {"thread_count": 2}, "flops_profiler": {"enabled": true},
          "curriculum_learning": {"enabled": false, "schedule_config": {"root": 2}}})",
      "--deepspeed_config ds.json");
  const auto note = std::ranges::find(translation.notes, "--deepspeed_config", &Note::flag);
  ASSERT_NE(note, translation.notes.end());
  EXPECT_EQ(note->text,
            "no effect on the results, in ds.json: aio.thread_count, "
            "curriculum_learning.schedule_config.root, flops_profiler.enabled, "
            "fp16.consecutive_hysteresis, optimizer, steps_per_print, wall_clock_breakdown, "
            "zero_optimization.offload_param.pin_memory, zero_optimization.overlap_comm");
}

// Also what DeepSpeed itself would pass over: it may be a misspelling.
TEST(Deepspeed, RefusesWhatItDoesNotKnow) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"gradient_clip": 1.0})",
       "gradient_clip in ds.json is the number 1.0: unknown to Trireme"},
      {R"({"zero_optimization": {"stge": 2}})",
       "zero_optimization.stge in ds.json is the number 2"},
      {R"({"aio": {"threads": 2}})", "aio.threads"},
      {R"({"a.b": 1})", "a.b in ds.json"},
      {R"({"fp16.enabled": true})", "fp16.enabled in ds.json is true: unknown to Trireme"},
      {R"({"scheduler": {"type": "WarmupLR"}})", "instead of Megatron's schedule"},
      {R"({"fp16": {"enabled": true, "consecutive_hysteresis": true}})", "hysteresis is reset"},
      {R"({"zero_optimization": {"zero_quantized_gradients": true}})", "quantized communication"},
      {R"({"zero_optimization": {"mics_shard_size": 4}})", "parallel.dp_replicate"},
      {R"({"data_types": {"grad_accum_dtype": "bf16"}})", "accumulates gradients in fp32"},
      {R"({"progressive_layer_drop": {"enabled": true}})", "progressive_layer_drop.enabled"},
      {R"({"compression_training": {"x": {"y": {"enabled": true}}}})", "x.y.enabled in ds.json"}};
  for (const auto& [json, message] : cases)
    EXPECT_THAT(deepspeed_refusal(json, ""), HasSubstr(message)) << json;
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
    EXPECT_EQ(c.curriculum.schedule, CurriculumSchedule::fixed_linear);
    EXPECT_EQ(c.curriculum.min_length, 8);
    EXPECT_EQ(c.curriculum.iters, 150);
    EXPECT_EQ(c.curriculum.length_step, 8);
  }
  const Config root = to_config(
      with_deepspeed(curriculum_file(on + R"("schedule_type": "fixed_root", "schedule_config":
                      {"total_curriculum_step": 9, "difficulty_step": 16, "root_degree": 2})"),
                     "--deepspeed_config ds.json"));
  EXPECT_EQ(root.curriculum.schedule, CurriculumSchedule::fixed_root);
  EXPECT_EQ(root.curriculum.root_degree, 2);
  // Neither the flag nor the file turns it on, and a file that turns it off does not.
  for (const char* enabled : {"", R"("enabled": false, )"}) {
    const Config off = to_config(with_deepspeed(curriculum_file(enabled + std::string(kLinear)),
                                                "--deepspeed_config ds.json"));
    EXPECT_EQ(off.curriculum.schedule, CurriculumSchedule::none);
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
                        "the string \"9\", not a positive integer"));
  EXPECT_THAT(refused(curriculum_file(on + R"("schedule_type": "fixed_linear", "schedule_config":
                                      {"total_curriculum_step": 9, "difficulty_step": 48})")),
              HasSubstr("curriculum.min_length is --deepspeed_config"));
  EXPECT_THAT(refused(R"({"data_efficiency": {"enabled": true}})"), HasSubstr("data_efficiency"));
  EXPECT_THAT([&] { translate(words(kSmall + flag), {}); },
              ::testing::ThrowsMessage<Error>(HasSubstr("requires --deepspeed_config FILE")));
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
