// Tests of `trireme train` from the command line: settings that change results and those that must
// not, kills, signals, limits.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "program.h"
#include "sample.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class Train : public Workspace {};
class SlowTrain : public Workspace {};

TEST_F(Train, LearnsAndPrintsItsPlan) {
  prepare_data();
  const Outcome outcome = train("run", {"train.iters=60"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("memory, planned:"));
  EXPECT_THAT(outcome.out, HasSubstr("saved activations"));
  EXPECT_THAT(outcome.out, HasSubstr("step 60/60"));
  EXPECT_THAT(outcome.out, HasSubstr(" samples/s"));
  const std::string lines = metrics("run");
  const auto loss_of = [&](const std::string& step) {
    const std::size_t at = lines.find("\"loss\": ", lines.find("{\"step\": " + step + ","));
    return std::stod(lines.substr(at + 8));
  };
  EXPECT_GT(loss_of("1"), 5);
  EXPECT_LT(loss_of("60"), 3.5);
}

TEST_F(Train, WhatMustNotChangeTheNumbersDoesNot) {
  prepare_data();
  ASSERT_EQ(train("plain").code, 0);
  const std::string expected = metrics("plain");
  EXPECT_GT(expected.size(), 30u * 50);
  const std::vector<std::vector<std::string>> variants = {
      {"parallel.recompute=selective"},
      {"parallel.recompute=full"},
      {"parallel.recompute=full", "parallel.recompute_layers=1"},
      {"--paranoid"},
      {"--paranoid", "parallel.recompute=selective"},
      {"checkpoint.async=true"}};
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const std::string dir = "variant" + std::to_string(v);
    const Outcome outcome = train(dir, variants[v]);
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_EQ(metrics(dir), expected) << variants[v].front();
  }
  for (const char* threads : {"1", "3"}) {
    const std::string dir = std::string("threads") + threads;
    ASSERT_EQ(train(dir, {}, {{"TRIREME_THREADS", threads}}).code, 0);
    EXPECT_EQ(metrics(dir), expected) << threads << " threads";
  }
}

TEST_F(Train, ShowsAsMuchAsItsLevelSaysAndComputesTheSame) {
  prepare_data();
  const std::vector<std::string> short_run = {"train.iters=8", "checkpoint.interval=4"};
  const auto at_level = [&](const std::string& level) {
    std::vector<std::string> arguments = short_run;
    arguments.insert(arguments.end(), {"--log-level", level});
    const Outcome outcome = train(level, arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_THAT(contents(path(level + "/log.txt")), HasSubstr("done at step 8"));
    return outcome.out;
  };
  EXPECT_EQ(at_level("error"), "");
  EXPECT_EQ(at_level("warning"), "");
  EXPECT_THAT(at_level("info"), testing::Not(HasSubstr("start-up: ")));
  const std::string all = at_level("debug");
  EXPECT_THAT(all, HasSubstr("start-up: data opened: "));
  EXPECT_THAT(all, HasSubstr("step 8: samples "));
  EXPECT_THAT(all, HasSubstr(" in manifest.json"));
  EXPECT_EQ(metrics("debug"), metrics("info"));
  EXPECT_EQ(metrics("error"), metrics("info"));
  const Outcome wrong = train("wrong", {"--log-level", "loud"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, HasSubstr("error, warning, info, debug"));
}

TEST_F(Train, EveryPrecisionTrains) {
  prepare_data();
  for (const char* precision : {"fp32", "fp64", "bf16", "fp16"}) {
    const Outcome outcome = train(precision, {std::string("run.precision=") + precision,
                                              "optimizer.initial_loss_scale=65536"});
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("done at step 30"));
    const std::vector<double> losses = values_of(metrics(precision), "loss");
    ASSERT_EQ(losses.size(), 30u);
    EXPECT_LT(losses.back(), 0.9 * losses.front()) << precision;
  }
}

TEST_F(Train, Fp16SkipsStepsThatOverflow) {
  prepare_data();
  ASSERT_EQ(train("run", {"run.precision=fp16", "optimizer.initial_loss_scale=4294967296"}).code,
            0);
  EXPECT_THAT(metrics("run"), HasSubstr("\"skipped_steps\": 1"));
}

TEST_F(Train, Fp16ThatNoScaleHelpsEndsAndKeepsWhatWasGood) {
  prepare_data();
  const std::vector<std::string> fp16 = {"run.precision=fp16", "optimizer.initial_loss_scale=1024",
                                         "checkpoint.interval=10", "checkpoint.keep=1"};
  std::vector<std::string> good = fp16, bad = fp16;
  good.insert(good.end(), {"train.exit_interval=20"});
  ASSERT_EQ(train("run", good).code, 0);
  bad.insert(bad.end(), {"train.iters=200", "optimizer.lr=1e9", "optimizer.clip_grad=0"});
  const Outcome outcome = train("run", bad);
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("20th time in a row at optimizer.min_loss_scale = 1"));
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/step-00000020"));
}

TEST_F(Train, LlamaWithGroupedHeadsTrains) {
  prepare_data();
  const Outcome outcome =
      train("run", {"model.family=llama", "model.num_kv_heads=2", "train.iters=40"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
}

TEST_F(Train, StopsOnASignalAndGoesOn) {
  prepare_data();
  ASSERT_EQ(train("whole", {"train.iters=60"}).code, 0);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    const std::string dir = "run" + std::to_string(signal);
    Program program(train_arguments(dir, {"train.iters=60"}), path("output.txt"));
    program.runs_until([&] { return metrics(dir).size() >= 2000; });
    program.kill(signal);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.code, 3) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("stopped at step"));
    EXPECT_EQ(train(dir, {"train.iters=60"}).code, 0);
    EXPECT_EQ(metrics(dir), metrics("whole"));
  }
}

TEST_F(Train, StopsAtAnIntervalAndADuration) {
  prepare_data();
  EXPECT_EQ(train("interval", {"train.exit_interval=7"}).code, 0);
  EXPECT_THAT(metrics("interval"), HasSubstr("{\"step\": 7,"));
  EXPECT_THAT(metrics("interval"), testing::Not(HasSubstr("{\"step\": 8,")));
  EXPECT_EQ(train("duration", {"train.exit_duration_minutes=1e-9"}).code, 0);
  EXPECT_THAT(metrics("duration"), testing::Not(HasSubstr("{\"step\": 2,")));
}

// Kills with -9 at times spread over the whole run, saves included: it always resumes bit for bit.
void kill_and_resume(const std::function<Program(void)>& start,
                     const std::function<std::size_t()>& progress, int kills) {
  unsigned state = 12345;
  for (int k = 0; k < kills; ++k) {
    Program program = start();
    const std::size_t before = progress();
    state = state * 1664525u + 1013904223u;
    const std::size_t target = before + (state >> 16) % 900;
    const auto extra = std::chrono::microseconds((state >> 8) % 20000);
    program.runs_until([&] { return progress() >= target; });
    const auto until = std::chrono::steady_clock::now() + extra;
    program.runs_until([&] { return std::chrono::steady_clock::now() >= until; });
    program.kill(SIGKILL);
    program.wait();
  }
}

// Shapes do not reveal the difference: the weights would fit.
TEST_F(Train, SaysWhereTheModelIsNotTheSavedOne) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.exit_interval=2"}).code, 0);  // to be resumed
  const Outcome changed = train("run", {"train.exit_interval=4", "model.activation=gelu_erf"});
  EXPECT_EQ(changed.code, 0) << changed.out;
  EXPECT_THAT(changed.out, HasSubstr("warning: this is not the model"));
  EXPECT_THAT(changed.out, HasSubstr("model.activation: \"gelu_erf\", was \"gelu_tanh\""));
  // Settings that do not change the meaning of the weights may change.
  const Outcome same = train("run", {"train.exit_interval=6", "model.activation=gelu_erf",
                                     "model.hidden_dropout=0", "model.vocab_multiple=64"});
  EXPECT_THAT(same.out, testing::Not(HasSubstr("not the model")));
}

TEST_F(Train, SaysThatCountsOfExpertsBeginWithARun) {
  prepare_data();
  const std::vector<std::string> experts = {
      "optimizer.warmup_iters=0", "model.family=llama", "model.hidden_dropout=0",
      "moe.num_experts=4",        "moe.top_k=2",        "moe.normalize_weights=true",
      "moe.aux_loss_coeff=0.01"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), experts.begin(), experts.end());
    return more;
  };
  ASSERT_EQ(train("run", with({"train.iters=2"})).code, 0);
  for (const auto& [setting, name] :
       {std::pair{"moe.aux_loss=global", "moe.aux_loss = \"global\""},
        {"moe.expert_bias=true moe.score=sigmoid", "moe.expert_bias = true"}}) {
    std::istringstream words(setting);
    std::vector<std::string> settings = {"train.iters=4"};
    for (std::string word; words >> word;) settings.push_back(word);
    const Outcome outcome = train("run", with(settings));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.out, HasSubstr(std::string("was saved without ") + name));
  }
  ASSERT_EQ(train("global", with({"train.iters=2", "moe.aux_loss=global"})).code, 0);
  for (const std::string format : {"hf", "dcp"}) {
    EXPECT_THAT(run({"convert", "--to", format, path("global"), path(format)}).out,
                HasSubstr("moe.aux_loss = \"global\" and its counts are not exported"));
    EXPECT_THAT(run({"convert", "--to", format, path("run"), path(format + "-of-run")}).out,
                testing::Not(HasSubstr("moe.aux_loss")));
  }
}

TEST_F(Train, SurvivesKills) {
  prepare_data();
  ASSERT_EQ(train("whole").code, 0);
  kill_and_resume([&] { return Program(train_arguments("killed"), path("output.txt")); },
                  [&] { return metrics("killed").size(); }, 6);
  const Outcome last = train("killed");
  ASSERT_EQ(last.code, 0) << last.out;
  EXPECT_EQ(metrics("killed"), metrics("whole"));
}

TEST_F(SlowTrain, SurvivesManyKillsWhileSavingInTheBackground) {
  prepare_data();
  const std::vector<std::string> more = {"checkpoint.interval=1", "checkpoint.async=true",
                                         "train.iters=120", "run.precision=fp32"};
  ASSERT_EQ(train("whole", more).code, 0);
  kill_and_resume([&] { return Program(train_arguments("killed", more), path("output.txt")); },
                  [&] { return metrics("killed").size(); }, in_long_tests(40, 12));
  const Outcome last = train("killed", more);
  ASSERT_EQ(last.code, 0) << last.out;
  EXPECT_EQ(metrics("killed"), metrics("whole"));
}

TEST_F(Train, AFullDiskLeavesTheOldCheckpoint) {
  prepare_data();
  Program program(train_arguments("run", {"train.iters=100000"}), path("output.txt"));
  program.runs_until([&] { return fs::exists(folder_ / "run/checkpoints/latest"); });
  // No file of this process can grow past 64 KiB from now on: the next shard will not fit.
  const rlimit limit{1 << 16, 1 << 16};
  ASSERT_EQ(::prlimit(program.pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("trireme: "));
  const std::string latest = contents(folder_ / "run/checkpoints/latest");
  EXPECT_EQ(run({"inspect", path("run/checkpoints/" + latest.substr(0, latest.find('\n')))}).code,
            0);
  // With free space again, the run resumes.
  const Outcome resumed = train("run", {"train.iters=200"});
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, HasSubstr("resumed from"));
}

TEST_F(Train, NamesWhereNumbersStopBeingFinite) {
  prepare_data();
  const Outcome outcome =
      train("run", {"optimizer.lr=1e30", "optimizer.clip_grad=0", "run.precision=fp32"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("not finite; first in "));
  EXPECT_THAT(outcome.out, HasSubstr("forward"));
}

// A non-finite validation loss prevents saving just as a non-finite step does.
TEST_F(Train, EndsWhereTheValidationLossIsNotFinite) {
  prepare_data();
  const std::vector<std::string> one_step = {
      "optimizer.lr=1e38",     "optimizer.warmup_iters=0", "optimizer.decay_style=constant",
      "optimizer.clip_grad=0", "run.precision=fp32",       "train.iters=1",
      "train.eval_interval=1", "checkpoint.interval=1"};
  const Outcome outcome = train("run", one_step);
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("step 1: the validation loss is not finite"));
  EXPECT_FALSE(fs::exists(folder_ / "run/checkpoints/latest"));
  std::vector<std::string> unchecked = one_step;
  unchecked.push_back("train.check_nan=false");
  const Outcome continued = train("unchecked", unchecked);
  EXPECT_EQ(continued.code, 0) << continued.out;
  EXPECT_THAT(metrics("unchecked"), HasSubstr("\"valid_loss\": null"));
}

TEST_F(Train, RampsTheBatchUp) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.iters=0", "train.samples=200", "train.rampup_batch_size=[2,2,24]",
                          "optimizer.warmup_iters=0"})
                .code,
            0);
  EXPECT_THAT(metrics("run"), HasSubstr("\"consumed_samples\": 2,"));
}

TEST_F(Train, DumpsItsGraph) {
  prepare_data();
  ASSERT_EQ(train("run", {"--dump-graph", path("graphs")}).code, 0);
  EXPECT_THAT(contents(folder_ / "graphs/block1.txt"), HasSubstr("attention_grad"));
  EXPECT_THAT(contents(folder_ / "graphs/head.dot"), HasSubstr("digraph"));
  const std::string step = contents(folder_ / "graphs/step.txt");
  EXPECT_THAT(step, HasSubstr("backward of chunk 0, segment 1"));
  EXPECT_THAT(step, HasSubstr("adam"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

// Two layers of GPT-2 124M.
TEST_F(SlowTrain, MemoryStaysWithinItsPlan) {
  for (const char* precision : {"bf16", "fp32"}) {
    const Outcome outcome =
        run({"bench", "step", "--steps", "1", "--json", "model.num_layers=2",
             "model.seq_length=256", "train.micro_batch_size=1", "train.global_batch_size=1",
             std::string("run.precision=") + precision});
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    const auto number = [&](const std::string& key) {
      return std::stod(outcome.out.substr(outcome.out.find("\"" + key + "\":") + key.size() + 3));
    };
    // Program, libraries and thread stacks: 96 MiB.
    EXPECT_LE(number("peak_resident_bytes"), 1.1 * number("planned_bytes") + 96 * 1048576.0)
        << precision;
    EXPECT_GE(number("peak_resident_bytes"), 0.9 * number("planned_bytes")) << precision;
  }
}

}  // namespace
}  // namespace trireme::testing_cli
