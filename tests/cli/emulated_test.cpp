// Tests of complete training runs on the emulated GPU, compared with the CPU.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* emulated = "run.device=emulated";

class Emulated : public Workspace {
 protected:
  void SetUp() override {
    prepare_data();
    write("run.toml", configuration());
  }

  static std::vector<std::string> with(std::vector<std::string> some,
                                       const std::vector<std::string>& more) {
    some.insert(some.end(), more.begin(), more.end());
    return some;
  }

  void expect_trained(const std::string& dir, const std::vector<std::string>& settings,
                      const Program::Environment& environment = {}) const {
    const Outcome outcome = train(dir, settings, environment);
    ASSERT_EQ(outcome.code, 0) << outcome.out;
  }

  // Returns the largest relative difference of the losses over all steps.
  double difference(const std::string& a, const std::string& b) const {
    const std::vector<double> left = values_of(metrics(a), "loss"),
                              right = values_of(metrics(b), "loss");
    if (left.size() != right.size() || left.empty()) return INFINITY;
    double largest = 0;
    for (std::size_t i = 0; i < left.size(); ++i)
      largest = std::max(largest, std::fabs(left[i] - right[i]) / right[i]);
    return largest;
  }
};

struct Trained {
  const char* name;
  std::vector<std::string> settings;
  double tolerance;
};

class EmulatedFamilies : public Emulated, public testing::WithParamInterface<Trained> {};

TEST_P(EmulatedFamilies, LearnAsOnTheCpu) {
  const auto settings =
      with(GetParam().settings, {"train.iters=20", "train.global_batch_size=2",
                                 "train.eval_interval=10", "checkpoint.interval=20"});
  expect_trained("cpu", settings);
  for (const char* wave : {"32", "64"}) {
    SCOPED_TRACE(std::string("waves of ") + wave);
    const std::string dir = std::string("wave") + wave;
    expect_trained(dir, with(settings, {emulated}), {{"TRIREME_WAVE", wave}});
    EXPECT_LE(difference(dir, "cpu"), GetParam().tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, EmulatedFamilies,
    testing::Values(
        Trained{"gpt_fp32", {"run.precision=fp32"}, 1e-3},
        Trained{"gpt_bf16", {"run.precision=bf16", "model.attention_dropout=0.1"}, 2e-2},
        Trained{"gpt_fp16", {"run.precision=fp16"}, 2e-2},
        Trained{"llama_fp32",
                {"run.precision=fp32", "model.family=llama", "model.num_kv_heads=2",
                 "model.hidden_dropout=0"},
                1e-3},
        Trained{"llama_bf16",
                {"run.precision=bf16", "model.family=llama", "model.num_kv_heads=2",
                 "parallel.recompute=full"},
                2e-2},
        Trained{"window_fp32",
                {"run.precision=fp32", "model.family=llama", "model.hidden_dropout=0",
                 "model.attention_window=5", "model.norm_placement=output"},
                1e-3},
        Trained{"alibi_geglu_fp32",
                {"run.precision=fp32", "model.family=llama", "model.hidden_dropout=0",
                 "model.position=alibi", "model.embedding_norm=true", "model.activation=geglu",
                 "model.zero_centered_norms=true", "model.scale_embedding=true",
                 "model.qk_norm=true", "model.qk_norm_over=all_heads"},
                1e-3},
        Trained{"caps_fp32",
                {"run.precision=fp32", "model.family=llama", "model.hidden_dropout=0",
                 "model.num_kv_heads=2", "model.attention_window=7", "model.norm_placement=both",
                 "model.attention_soft_cap=2", "model.logit_soft_cap=3"},
                1e-3},
        Trained{
            "lion_fp32", {"run.precision=fp32", "optimizer.name=lion", "optimizer.lr=1e-3"}, 1e-3},
        Trained{"muon_fp32", {"run.precision=fp32", "optimizer.name=muon"}, 1e-3},
        Trained{"experts_fp32",
                {"run.precision=fp32", "model.family=llama", "model.hidden_dropout=0",
                 "moe.num_experts=4", "moe.aux_loss_coeff=0.01", "moe.z_loss_coeff=0.001",
                 "moe.capacity_factor=1.25"},
                1e-3},
        Trained{"sigmoid_experts_bf16",
                {"run.precision=bf16", "model.family=llama", "model.hidden_dropout=0",
                 "moe.num_experts=8", "moe.top_k=4", "moe.score=sigmoid", "moe.num_groups=4",
                 "moe.top_groups=2", "moe.expert_bias=true", "moe.shared_ffn_hidden_size=32",
                 "moe.shared_gate=true", "moe.aux_loss_coeff=0.01", "parallel.recompute=full"},
                2e-2},
        Trained{"fp8_blockwise_bf16",
                {"run.precision=bf16", "fp8.recipe=blockwise", "fp8.format=hybrid"},
                2e-2},
        Trained{"fp8_tensorwise_fp16",
                {"run.precision=fp16", "fp8.recipe=tensorwise", "fp8.encoding=fnuz"},
                2e-2},
        Trained{"fp8_experts_bf16",
                {"run.precision=bf16", "model.family=llama", "model.hidden_dropout=0",
                 "moe.num_experts=4", "fp8.recipe=blockwise", "fp8.power_of_2_scales=false",
                 "fp8.last_layers_bf16=1"},
                2e-2},
        Trained{"latent_fp32",
                {"run.precision=fp32", "model.family=llama", "model.hidden_dropout=0",
                 "model.kv_lora_rank=16", "model.q_lora_rank=24", "model.qk_nope_head_dim=8",
                 "model.qk_rope_head_dim=4", "model.v_head_dim=8"},
                1e-3},
        Trained{"residual_global_fp32",
                {"run.precision=fp32", "model.family=llama", "model.hidden_dropout=0",
                 "moe.num_experts=4", "moe.shared_ffn_hidden_size=32", "moe.residual=true",
                 "moe.aux_loss=global", "moe.aux_loss_coeff=0.01"},
                1e-3}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST_F(Emulated, BertLearnsAsOnTheCpu) {
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n";
  for (const char* word : {"the", "ship", "a", "rower", "wind", "one", "oar", "captain", "turns",
                           "sees", "carries", "follows", "meets"})
    vocabulary += std::string(word) + "\n";
  write("vocab.txt", vocabulary);
  // A capital letter starts a sentence.
  std::ifstream lines(path("corpus.txt"));
  std::string text;
  for (std::string line; std::getline(lines, line); text += line + "\n")
    if (!line.empty()) line[0] = static_cast<char>(std::toupper(line[0]));
  write("sentences.txt", text);
  const Outcome made = run({"preprocess", "--input", path("sentences.txt"), "--documents",
                            "paragraph", "--split-sentences", "--tokenizer-type", "bert",
                            "--vocab-file", path("vocab.txt"), "--output-prefix", path("words")});
  ASSERT_EQ(made.code, 0) << made.out;
  const std::vector<std::string> settings = {"model.family=bert",
                                             "run.precision=fp32",
                                             "data.path=" + path("words_text_sentence"),
                                             "data.tokenizer=bert",
                                             "data.vocab_file=" + path("vocab.txt"),
                                             "data.merge_file=",
                                             "train.iters=20",
                                             "train.global_batch_size=2",
                                             "checkpoint.interval=20"};
  expect_trained("cpu", settings);
  for (const char* wave : {"32", "64"}) {
    const std::string dir = std::string("wave") + wave;
    expect_trained(dir, with(settings, {emulated}), {{"TRIREME_WAVE", wave}});
    EXPECT_LE(difference(dir, "cpu"), 1e-3);
  }
}

TEST_F(Emulated, ResumesWithTheSameBits) {
  const std::vector<std::string> settings = {emulated, "train.iters=12"};
  expect_trained("whole", settings);
  expect_trained("cut", with(settings, {"train.exit_interval=5"}));
  expect_trained("cut", settings);
  EXPECT_EQ(metrics("cut"), metrics("whole"));
}

TEST_F(Emulated, NoOrderOfTheQueuesChangesABit) {
  const std::vector<std::string> settings = {emulated, "train.iters=3", "optimizer.warmup_iters=1",
                                             "train.global_batch_size=4", "train.eval_interval=0"};
  expect_trained("in_order", settings);
  for (int seed = 1; seed <= 20; ++seed) {
    const std::string dir = "order" + std::to_string(seed);
    expect_trained(dir, settings, {{"TRIREME_STREAM_ORDER", std::to_string(seed)}});
    EXPECT_EQ(metrics(dir), metrics("in_order"));
  }
}

// Tests of offloading to host memory, with more layers and buckets than there are windows and
// slots.
class EmulatedOffload : public Emulated {
 protected:
  void SetUp() override {
    Emulated::SetUp();
    expect_trained("plain", settings_);
  }

  std::string weights(const std::string& dir) const {
    return contents(path(dir + "/checkpoints/step-00000004/shard-00000.safetensors"));
  }
  void expect_same_bits(const std::string& dir) const {
    EXPECT_EQ(metrics(dir), metrics("plain"));
    ASSERT_NE(weights(dir), "");
    EXPECT_TRUE(weights(dir) == weights("plain"));
  }

  const std::vector<std::string> settings_ = {emulated,
                                              "train.iters=4",
                                              "model.num_layers=5",
                                              "train.global_batch_size=4",
                                              "train.eval_interval=2",
                                              "checkpoint.interval=4"},
                                 all_ = {"offload.optimizer=host", "offload.activations=host",
                                         "offload.parameters=host", "parallel.zero=3"};
};

class SlowEmulatedOffload : public EmulatedOffload {};

TEST_F(EmulatedOffload, ToTheHostChangesNoBit) {
  for (const auto& [dir, more] :
       {std::pair<std::string, std::vector<std::string>>{"states", {"offload.optimizer=host"}},
        {"async", {"offload.optimizer=host", "checkpoint.async=true"}},
        {"activations", {"offload.activations=host"}},
        {"some", {"offload.activations=host", "offload.activation_layers=4", "--paranoid"}},
        {"parameters", {"offload.parameters=host", "parallel.zero=3"}},
        {"all", with(all_, {"--paranoid"})}}) {
    SCOPED_TRACE(dir);
    expect_trained(dir, with(settings_, more));
    expect_same_bits(dir);
  }
}

TEST_F(SlowEmulatedOffload, NoOrderOfTheQueuesChangesABit) {
  for (int seed = 1; seed <= 6; ++seed) {
    const std::string dir = "order" + std::to_string(seed);
    expect_trained(dir, with(settings_, all_), {{"TRIREME_STREAM_ORDER", std::to_string(seed)}});
    expect_same_bits(dir);
  }
}

TEST_F(SlowEmulatedOffload, ResumesWithAndWithout) {
  const std::vector<std::string> half = {"train.exit_interval=2"};
  expect_trained("leaves", with(with(settings_, all_), half));
  expect_trained("leaves", settings_);
  expect_same_bits("leaves");
  expect_trained("comes", with(settings_, half));
  expect_trained("comes", with(settings_, all_));
  expect_same_bits("comes");
}

// Data that was read ahead for skipped steps is not used.
TEST_F(SlowEmulatedOffload, SkippedStepsChangeNothing) {
  for (const char* more : {"run.precision=fp16 optimizer.initial_loss_scale=2097152",
                           "run.precision=fp32 optimizer.name=muon",
                           "run.precision=bf16 optimizer.moment_dtype=bf16"}) {
    SCOPED_TRACE(more);
    std::vector<std::string> settings = settings_;
    std::istringstream words(more);
    for (std::string word; words >> word;) settings.push_back(word);
    fs::remove_all(path("plain"));
    fs::remove_all(path("all"));
    expect_trained("plain", settings);
    expect_trained("all", with(settings, all_));
    expect_same_bits("all");
    if (std::string(more).find("fp16") == std::string::npos) continue;
    const double skipped = values_of(metrics("all"), "skipped_steps").back();
    EXPECT_GT(skipped, 0);
    EXPECT_LT(skipped, 4);
  }
}

TEST_F(EmulatedOffload, IsPlanned) {
  const Outcome trained = train("run", with(settings_, all_));
  const Outcome planned = run(with({"plan", path("run.toml")}, with(settings_, all_)));
  ASSERT_EQ(planned.code, 0) << planned.out;
  EXPECT_THAT(planned.out, HasSubstr("in host memory"));
  for (const char* what : {"optimizer states", "parameters", "activations"}) {
    const auto bytes = [&](const std::string& text, const std::string& before) {
      std::istringstream rest(text.substr(text.find(before) + before.size()));
      std::string number, unit;
      rest >> number >> unit;
      return number + " " + unit;
    };
    const std::string host = planned.out.substr(planned.out.find("in host memory"));
    const std::string used = trained.out.substr(trained.out.find("\noptimizer states:"));
    EXPECT_EQ(bytes(host, std::string("  ") + what), bytes(used, std::string("\n") + what + ":"));
  }
}

TEST_F(EmulatedOffload, ToAFileIsRefused) {
  for (const char* key : {"optimizer", "parameters", "activations"}) {
    const std::string setting = std::string("offload.") + key;
    const Outcome outcome =
        train(key, with(settings_, {setting + "=file", "offload.path=/tmp", "parallel.zero=3"}));
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out,
                HasSubstr(setting + " = \"file\" requires run.device = \"cpu\": on GPUs "
                                    "use \"host\""));
  }
  const Outcome alone = train("alone", with(settings_, {"offload.parameters=host"}));
  EXPECT_EQ(alone.code, 2) << alone.out;
  EXPECT_THAT(alone.out, HasSubstr("parallel.zero is 0: use 3"));
}

TEST_F(Emulated, CheckpointsAreTheCpus) {
  const std::vector<std::string> settings = {"run.precision=fp32", "train.iters=8",
                                             "checkpoint.interval=4", "checkpoint.async=true"};
  expect_trained("cpu", settings);
  // Four steps on one device and four on the other, in both orders.
  for (const auto& [first, second] : {std::pair{"cpu", "emulated"}, std::pair{"emulated", "cpu"}}) {
    const std::string dir = std::string("first_") + first;
    expect_trained(dir,
                   with(settings, {std::string("run.device=") + first, "train.exit_interval=4"}));
    expect_trained(dir, with(settings, {std::string("run.device=") + second}));
    EXPECT_LE(difference(dir, "cpu"), 1e-3);
  }
}

TEST_F(Emulated, GeneratesAndEvaluatesAsTheCpu) {
  const std::vector<std::string> settings = {"run.precision=fp32", "train.iters=10"};
  expect_trained("run", settings);
  std::vector<std::string> texts, evaluations;
  for (const char* device : {"cpu", "emulated"}) {
    const std::string on = std::string("run.device=") + device;
    texts.push_back(run({"generate", path("run"), "--prompt", "the ship", "--greedy",
                         "--max-new-tokens", "6", "--set", on})
                        .out);
    const Outcome evaluated =
        run({"eval", path("run"), "--text", path("corpus.txt"), "--json", "--set", on});
    ASSERT_EQ(evaluated.code, 0) << evaluated.out;
    evaluations.push_back(evaluated.out);
  }
  EXPECT_EQ(texts[0], texts[1]);
  const auto loss = [](const std::string& json) {
    return nlohmann::json::parse(json)["loss"].get<double>();
  };
  EXPECT_NEAR(loss(evaluations[1]), loss(evaluations[0]), 1e-4);
}

// ALiBi slopes, windows and soft caps with a KV cache; and experts.
TEST_F(Emulated, GeneratesWithinWindowsAsTheCpu) {
  for (const std::vector<std::string>& model :
       {std::vector<std::string>{"model.position=alibi", "moe.num_experts=4"},
        {"model.attention_soft_cap=0.5", "model.num_kv_heads=2"}}) {
    expect_trained(model[0],
                   with(model, {"run.precision=fp32", "train.iters=10", "model.family=llama",
                                "model.hidden_dropout=0", "model.attention_window=5"}));
    std::vector<std::string> texts;
    for (const char* device : {"cpu", "emulated"}) {
      const Outcome outcome =
          run({"generate", path(model[0]), "--prompt", "the ship", "--greedy", "--max-new-tokens",
               "8", "--set", std::string("run.device=") + device});
      ASSERT_EQ(outcome.code, 0) << outcome.out;
      texts.push_back(outcome.out);
    }
    EXPECT_EQ(texts[0], texts[1]);
  }
}

TEST_F(Emulated, PoisonedMemoryChangesNothing) {
  expect_trained("plain", {emulated, "train.iters=4"});
  expect_trained("poisoned", {emulated, "train.iters=4", "--paranoid"});
  EXPECT_EQ(metrics("poisoned"), metrics("plain"));
}

TEST_F(Emulated, PlansWithoutADeviceWhatARunAllocates) {
  const Outcome trained = train("run", {emulated, "train.iters=4"});
  ASSERT_EQ(trained.code, 0) << trained.out;
  // Extracts "874.12 KiB" from the line with the total.
  const auto total = [](const std::string& text) {
    std::istringstream line(text.substr(text.find("  total  ")));
    std::string word, number, unit;
    line >> word >> number >> unit;
    return number + " " + unit;
  };
  const Outcome planned = run({"plan", path("run.toml"), emulated});
  ASSERT_EQ(planned.code, 0) << planned.out;
  EXPECT_EQ(total(planned.out), total(trained.out));
  for (const char* device : {"cuda", "hip"}) {
    const Outcome there = run({"plan", path("run.toml"), std::string("run.device=") + device});
    EXPECT_EQ(there.code, 0) << there.out;
    // The model needs kilobytes; the scratch memory of a layer includes the library's workspace.
    EXPECT_THAT(total(there.out), testing::MatchesRegex("3[23]\\.[0-9]+ MiB"));
  }
}

class EmulatedLibrary : public Emulated {
 protected:
  static Program::Environment version(const char* number) {
    return {{"TRIREME_EMULATED_LIBRARY", number}};
  }
  std::string record(const std::string& dir) const { return contents(path(dir + "/tuning.json")); }
  // Writes a record to a run's folder in which the library's first algorithm is replaced.
  void change_record(const std::string& from, const std::string& to) const {
    const std::string first = "\"algorithm\":\"first\"", second = "\"algorithm\":\"second\"";
    std::string text = record(from);
    for (std::size_t at; (at = text.find(first)) != std::string::npos;)
      text.replace(at, first.size(), second);
    fs::create_directories(path(to));
    write(to + "/tuning.json", text);
  }

  const std::vector<std::string> settings_ = {emulated, "train.iters=4"};
};

TEST_F(EmulatedLibrary, IsUsedAsItsRecordSays) {
  expect_trained("plain", settings_);
  EXPECT_FALSE(fs::exists(path("plain/tuning.json")));
  expect_trained("run", settings_, version("1.0"));
  EXPECT_EQ(metrics("run"), metrics("plain"));
  EXPECT_THAT(record("run"), HasSubstr("\"library\": \"a substitute library 1.0\""));
  EXPECT_THAT(record("run"), HasSubstr("\"algorithm\":\"first\""));
  for (const char* product : {"forward", "input_grad", "weight_grad"})
    EXPECT_THAT(record("run"), HasSubstr("{\"product\":\"" + std::string(product) + "\""));

  change_record("run", "again");
  expect_trained("again", settings_, version("1.0"));
  EXPECT_THAT(record("again"), HasSubstr("\"algorithm\":\"second\""));
  EXPECT_THAT(record("again"), Not(HasSubstr("\"algorithm\":\"first\"")));
}

TEST_F(EmulatedLibrary, GoesOnAsTheCheckpointSays) {
  const auto first_half = with(settings_, {"train.exit_interval=2"});
  expect_trained("run", first_half, version("1.0"));
  change_record("run", "run");
  expect_trained("run", settings_, version("1.0"));
  EXPECT_THAT(record("run"), Not(HasSubstr("\"algorithm\":\"second\"")));

  expect_trained("other", first_half, version("1.0"));
  const Outcome other = train("other", settings_, version("2.0"));
  EXPECT_EQ(other.code, 0) << other.out;
  EXPECT_THAT(
      other.out,
      HasSubstr("the algorithms in the checkpoint were chosen on the emulated GPU with "
                "waves of 32 with a substitute library 1.0, but this is the emulated GPU with "
                "waves of 32 with a substitute library 2.0: they are not used"));
  EXPECT_THAT(record("other"), HasSubstr("a substitute library 2.0"));
}

TEST_F(EmulatedLibrary, RecordsOfOthersAreRefused) {
  expect_trained("run", settings_, version("1.0"));
  change_record("run", "newer");
  const Outcome newer = train("newer", settings_, version("2.0"));
  EXPECT_EQ(newer.code, 0) << newer.out;
  EXPECT_THAT(newer.out, HasSubstr("newer/tuning.json were chosen on the emulated GPU"));
  EXPECT_THAT(record("newer"), Not(HasSubstr("\"algorithm\":\"second\"")));

  fs::create_directories(path("damaged"));
  write("damaged/tuning.json", "{\"device\": 3}");
  const Outcome damaged = train("damaged", settings_, version("1.0"));
  EXPECT_EQ(damaged.code, 2);
  EXPECT_THAT(damaged.out, HasSubstr("damaged/tuning.json' is not a record of algorithms"));
}

TEST_F(EmulatedLibrary, WrongNumbersSwitchAProductOff) {
  const auto settings = with(settings_, {"run.precision=bf16"});
  expect_trained("plain", settings);
  const Outcome trained =
      train("run", settings,
            {{"TRIREME_EMULATED_LIBRARY", "1.0"}, {"TRIREME_EMULATED_FAULT", "wrong library"}});
  EXPECT_EQ(trained.code, 0) << trained.out;
  EXPECT_THAT(trained.out, HasSubstr("warning: a substitute library 1.0 on the emulated GPU with "
                                     "waves of 32, weight_grad in bf16: differs"));
  EXPECT_THAT(trained.out, HasSubstr("the own kernel takes its place"));
  EXPECT_EQ(metrics("run"), metrics("plain"));
}

// The library multiplies 8-bit values, with a scale per tensor or per block, where our own kernels
// multiply dequantized numbers.
class EmulatedBytes : public EmulatedLibrary, public testing::WithParamInterface<const char*> {
 protected:
  std::vector<std::string> settings() const {
    const std::string recipe = GetParam();
    std::vector<std::string> all = {"fp8.recipe=" + recipe,  "fp8.format=hybrid",
                                    "train.iters=4",         "train.global_batch_size=2",
                                    "train.eval_interval=0", "optimizer.warmup_iters=1",
                                    "model.hidden_dropout=0"};
    if (recipe == "tensorwise")
      return with(all,
                  {"run.precision=fp16", "fp8.encoding=fnuz", "optimizer.initial_loss_scale=1024"});
    return with(all, {"run.precision=bf16", "model.num_layers=1", "model.hidden_size=128",
                      "model.seq_length=128", "model.ffn_hidden_size=256", "model.num_heads=1"});
  }
};

TEST_P(EmulatedBytes, LearnAsNumbersOnTheCpu) {
  expect_trained("cpu", settings());
  for (const char* wave : {"32", "64"}) {
    const std::string dir = std::string("wave") + wave;
    auto environment = version("1.0");
    environment.emplace_back("TRIREME_WAVE", wave);
    expect_trained(dir, with(settings(), {emulated}), environment);
    // The first step matches closely, including gradient norms; later, rounding errors diverge.
    EXPECT_LE(difference(dir, "cpu"), 1e-2);
    for (const char* number : {"loss", "grad_norm"}) {
      const double there = values_of(metrics(dir), number).at(0);
      EXPECT_NEAR(there / values_of(metrics("cpu"), number).at(0), 1, 5e-4) << number;
    }
    for (const char* product : {"forward", "input_grad", "weight_grad"})
      EXPECT_THAT(record(dir), testing::ContainsRegex("\"product\":\"" + std::string(product) +
                                                      "\"[^}]*\"scales\":\"" + GetParam() +
                                                      "\",\"algorithm\":\"first\""));
  }
}

TEST_P(EmulatedBytes, GoOnAsTheCheckpointSays) {
  const auto all = with(settings(), {emulated});
  expect_trained("whole", all, version("1.0"));
  expect_trained("cut", with(all, {"train.exit_interval=2"}), version("1.0"));
  expect_trained("cut", all, version("1.0"));
  EXPECT_EQ(metrics("cut"), metrics("whole"));
}

INSTANTIATE_TEST_SUITE_P(SlowRecipes, EmulatedBytes, testing::Values("tensorwise", "blockwise"),
                         [](const auto& instance) { return std::string(instance.param); });

// A record, or the comparison at startup, can leave 8-bit GEMMs to our own kernels.
TEST_F(EmulatedLibrary, LeavesBytesToTheOwnKernels) {
  const auto settings =
      with(settings_, {"fp8.recipe=tensorwise", "train.iters=2", "optimizer.warmup_iters=1"});
  expect_trained("plain", settings);
  expect_trained("run", settings, version("1.0"));
  EXPECT_NE(metrics("run"), metrics("plain"));
  std::string text = record("run");
  const std::string bytes = "\"scales\":\"tensorwise\",\"algorithm\":\"first\"";
  for (std::size_t at; (at = text.find(bytes)) != std::string::npos;)
    text.replace(at, bytes.size(), "\"scales\":\"tensorwise\",\"algorithm\":\"own\"");
  fs::create_directories(path("own"));
  write("own/tuning.json", text);
  expect_trained("own", settings, version("1.0"));
  EXPECT_EQ(metrics("own"), metrics("plain"));

  const Outcome faulty =
      train("faulty", settings,
            {{"TRIREME_EMULATED_LIBRARY", "1.0"}, {"TRIREME_EMULATED_FAULT", "wrong library"}});
  EXPECT_EQ(faulty.code, 0) << faulty.out;
  EXPECT_THAT(faulty.out, HasSubstr("weight_grad of bytes in e4m3 and e4m3 (tensorwise) in f32: "
                                    "differs from the host's sums"));
  EXPECT_THAT(record("faulty"), testing::ContainsRegex("weight_grad[^}]*\"scales\":\"tensorwise\","
                                                       "\"algorithm\":\"own\""));
}

TEST_F(Emulated, WhatIsNotThereIsRefused) {
  const Outcome precise = train("fp64", {emulated, "run.precision=fp64"});
  EXPECT_EQ(precise.code, 2);
  EXPECT_THAT(precise.out, HasSubstr("requires run.device = \"cpu\""));
  const Outcome wave = train("wave", {emulated}, {{"TRIREME_WAVE", "48"}});
  EXPECT_EQ(wave.code, 2);
  EXPECT_THAT(wave.out, HasSubstr("waves of 32 or 64 lanes"));
  const Outcome absent = train("absent", {"run.device=hip"});
  EXPECT_EQ(absent.code, 2);
  EXPECT_THAT(absent.out, HasSubstr("this build of trireme has no plug-in for it"));
}

// --- unsupported cases: one message, and the matching exit code ---

TEST_F(Emulated, APlanThatTheGpuCannotHoldIsRefused) {
  const Outcome outcome =
      train("run", {emulated}, {{"TRIREME_EMULATED_MEMORY", std::to_string(1 << 19)}});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("the plan needs "));
  EXPECT_THAT(outcome.out, HasSubstr("(most of it for "));
  EXPECT_THAT(outcome.out, HasSubstr("but the emulated GPU with waves of 32 has 512.00 KiB"));
}

TEST_F(Emulated, MemoryThatSomethingElseHoldsIsMissed) {
  const Outcome outcome =
      train("run", {emulated}, {{"TRIREME_EMULATED_MEMORY", "1000000000:999900000"}});
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("the emulated GPU with waves of 32 has 97.66 KiB of "));
  EXPECT_THAT(outcome.out, HasSubstr("free, but the plan needs "));
  EXPECT_THAT(outcome.out, HasSubstr("stop other programs that use it, or choose another GPU"));
}

TEST_F(Emulated, APluginOfAnotherVersionIsRefused) {
  // The program searches its own folder first.
  fs::copy_file(TRIREME_BINARY, path("trireme"));
  fs::copy_file(TRIREME_OLD_PLUGIN, path("libtrireme_cuda.so"));
  const std::string command = path("trireme") + " train " + path("run.toml") +
                              " run.device=cuda run.dir=" + path("run") + " > " + path("out") +
                              " 2>&1";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  const std::string out = contents(path("out"));
  EXPECT_THAT(out, HasSubstr("libtrireme_cuda.so belongs to a different version of trireme"));
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
}

}  // namespace
}  // namespace trireme::testing_cli
